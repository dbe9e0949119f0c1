"""Biased sampling: covariate shift, in which p(x) changes, and class-conditional shift, in which p(x | y) does."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from adiw.shifts.shift import Shifted, check_labels, class_counts
from adiw.shifts.trusted import draw_per_class, proportional, trusted_count

BLOCK = 8  # directions iterated together: the first one converges as (ninth eigenvalue / first)^ITERATIONS
ITERATIONS = 20


@dataclass(frozen=True)
class Covariate:
    """Samples with a small first principal component are rarer in training, whatever their label.

    With s(x) the standardised first principal component of x,

        P(keep | x) = sigmoid(strength * s(x)), rescaled so that the largest is one;
        q(x) = t/n + (1 - t/n) P(keep | x),    w(x) = 1 / q(x), mean one over the kept samples.

    Trusted: 1000 by default, drawn before the biased sampling, uniformly within each class and in proportion to its
    size, and always kept. q accounts for them, and so bounds the weights. A negative strength prefers small
    components. Shapes: see ``Shifted``.

    >>> x, y = torch.linspace(-1, 1, 1000)[:, None], torch.arange(1000) % 2
    >>> shifted = Covariate(2.0).apply(x, y, 2, 100, torch.Generator().manual_seed(0))
    >>> bool(x[shifted.keep].mean() > 0.2), round(shifted.true_weights.mean().item(), 4)
    (True, 1.0)
    """

    strength: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.strength):
            raise ValueError(f"strength: expected a finite number, got {self.strength}; 2.0 is a clear shift")

    def apply(
        self, x: Tensor | None, y: Tensor, num_classes: int, trusted: int | None, generator: torch.Generator
    ) -> Shifted:
        """Drop samples by their inputs."""
        check_labels(y, num_classes)
        x = _check_inputs(x, y)
        counts = class_counts(y, num_classes)
        index = draw_per_class(y, proportional(trusted_count(trusted, len(y)), counts), generator)
        kept = torch.zeros(len(y), dtype=torch.bool, device=y.device)
        kept[index] = True
        parts = self._parts(y)
        scores = [principal_score(x[part.to(x.device)], generator).to(y.device) for part in parts]
        biases = [keep_probability(score, self.strength) for score in scores]
        # A part in which all samples are trusted loses none: its mean is that of all its samples.
        means = [
            float((bias if kept[part].all() else bias[~kept[part]]).mean())
            for bias, part in zip(biases, parts, strict=True)
        ]
        weights = torch.ones(len(y), dtype=torch.float64, device=y.device)
        for part, bias, mean in zip(parts, biases, means, strict=True):
            probability, is_trusted = min(means) * bias / mean, kept[part]
            uniform = torch.rand(len(part), generator=generator, device=generator.device, dtype=torch.float64)
            drawn = is_trusted | (uniform.to(y.device) < probability)
            kept[part] = drawn
            weights[part] = importance(probability, int(is_trusted.sum()), drawn)
        everything = Shifted(torch.arange(len(y), device=y.device), y, y, index, weights.float())
        return everything.without((~kept).nonzero().flatten())

    def _parts(self, y: Tensor) -> list[Tensor]:
        """Positions of the samples that are sampled together: all lose the same share."""
        return [torch.arange(len(y), device=y.device)]


class ClassConditional(Covariate):
    """Within each class, samples with a small first principal component are rarer in training.

    Every class loses the same fraction, apart from chance. With s_y(x) the standardised first principal component
    within the class and a = sigmoid(strength * s_y) / max sigmoid(strength * s_y), with means over the untrusted
    samples of the class,

        P(keep | x, y) = f a(x) / mean(a),    f = min_y mean(a), the largest share that every class can keep;
        q(x, y) = t_y/n_y + (1 - t_y/n_y) P(keep | x, y),    w = 1 / q, mean one over each class.

    Trusted: as for ``Covariate``. The only approximation: mean(a) excludes the trusted samples, an error of order
    sqrt(t_y) / n_y.

    >>> x, y = torch.linspace(-1, 1, 1000)[:, None], torch.arange(1000) % 2
    >>> shifted = ClassConditional(2.0).apply(x, y, 2, 100, torch.Generator().manual_seed(0))
    >>> bool(x[shifted.keep].mean() > 0.2), shifted.y.bincount()
    (True, tensor([281, 277]))
    """

    def _parts(self, y: Tensor) -> list[Tensor]:
        return [(y == c).nonzero().flatten() for c in y.unique()]


def _check_inputs(x: Tensor | None, y: Tensor) -> Tensor:
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
