"""Sampling by the inputs, for covariate and class-conditional shift: scores, keep probabilities and importance."""

from __future__ import annotations

import math

import torch
from torch import Tensor

BLOCK = 8  # directions iterated together: the first one converges as (ninth eigenvalue / first)^ITERATIONS
ITERATIONS = 20


def check_strength(strength: float) -> None:
    """The strength must be finite; zero is no shift, a negative strength prefers small scores."""
    if not math.isfinite(strength):
        raise ValueError(f"strength: expected a finite number, got {strength}; 2.0 is a clear shift")


def check_inputs(x: Tensor | None, y: Tensor) -> Tensor:
    """The inputs ``(n, ...)``, which this kind of shift needs: one per label."""
    if x is None:
        raise ValueError("x: expected the inputs (n, ...), got None; this shift samples by them, so pass x=")
    if len(x) != len(y):
        raise ValueError(f"x: expected as many inputs as labels, {len(y)}, got {len(x)}; pass the same samples")
    return x


def principal_score(x: Tensor, generator: torch.Generator) -> Tensor:
    """The projection of flattened x on its first principal direction, with mean 0 and variance 1.

        s_i = (v'x_i - mean) / std,    v = argmax_{|v| = 1} v'Cov(x)v,

    by block power iteration from a random start. ``(n, ...)`` to ``(n,)`` float64, all zeros if x is constant.
    The sign of v makes its first large entry (at least half of the largest) positive.

    >>> x = torch.tensor([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0]])
    >>> [round(s, 2) for s in principal_score(x, torch.Generator().manual_seed(0)).tolist()]
    [-1.22, 0.0, 1.22]
    """
    flat = x.reshape(len(x), -1).to(torch.float32)
    if not bool(flat.isfinite().all()):
        raise ValueError("x: expected finite inputs, got NaN or infinity; clean them before shifting")
    centred = flat - flat.mean(0)
    shape = (centred.shape[1], min(BLOCK, *centred.shape))
    basis = torch.randn(shape, generator=generator, device=generator.device).to(x.device)
    for _ in range(ITERATIONS):
        basis = torch.linalg.qr(centred.T @ (centred @ basis)).Q
    block = (centred @ basis).double()
    inside = torch.linalg.eigh(block.T @ block).eigenvectors[:, -1]
    score = block @ inside * _sign(basis.double() @ inside)
    spread = score.std(correction=0)
    standardised: Tensor = (score - score.mean()) / torch.where(spread > 0, spread, 1.0)
    return standardised


def _sign(direction: Tensor) -> Tensor:
    """The sign of the first large entry. The largest entry is not unique: (1, -1) / sqrt(2) has two."""
    large = direction.abs() >= 0.5 * direction.abs().max()
    return direction[large][0].sign()


def keep_probability(score: Tensor, strength: float) -> Tensor:
    """P_i(keep) = sigmoid(strength * s_i) / max_j sigmoid(strength * s_j): ``(n,)`` to ``(n,)``.

    >>> [round(p, 2) for p in keep_probability(torch.tensor([-1.0, 0.0, 1.0]), 2.0).tolist()]
    [0.14, 0.57, 1.0]
    """
    # The logarithm keeps the ratio exact where every sigmoid is tiny.
    log_probability = torch.nn.functional.logsigmoid(strength * score)
    return (log_probability - log_probability.max()).exp()


def systematic(probability: Tensor, generator: torch.Generator) -> Tensor:
    """Draw each i with exactly ``probability_i``, and a fixed number of samples in all.

    Systematic sampling in random order: the cumulative sum of the probabilities starts at u ~ U(0, 1), and i is
    drawn when its step crosses an integer. The number drawn is sum(probability), rounded down or up. ``(n,)`` to
    ``(n,)`` bool.

    >>> systematic(torch.full((10,), 0.3), torch.Generator().manual_seed(0)).sum()
    tensor(3)
    """
    order = torch.randperm(len(probability), generator=generator, device=generator.device).to(probability.device)
    start = torch.rand(1, generator=generator, device=generator.device, dtype=torch.float64)
    steps = torch.cat([start.to(probability.device), probability[order].double()])
    passed = steps.cumsum(0).floor()
    drawn = torch.zeros(len(probability), dtype=torch.bool, device=probability.device)
    drawn[order] = passed[1:] > passed[:-1]
    return drawn


def importance(probability: Tensor, trusted: int, kept: Tensor) -> Tensor:
    """The importance of samples that are kept with P(keep), or because they are trusted.

    A sample is one of the t trusted with probability t/n and otherwise kept with P(keep). It is therefore in
    the training set with probability

        q_i = t/n + (1 - t/n) P_i(keep),    w_i = (1 / q_i) / mean_{j kept} (1 / q_j).

    Args:
        probability: ``(n,)`` P(keep).  trusted: t.  kept: ``(n,)`` bool, at least one true.

    >>> [round(w, 2) for w in importance(torch.tensor([1.0, 0.25]), 0, torch.tensor([True, True])).tolist()]
    [0.4, 1.6]
    """
    share = trusted / len(probability)
    inverse = 1 / (share + (1 - share) * probability)
    return inverse / inverse[kept].mean()
