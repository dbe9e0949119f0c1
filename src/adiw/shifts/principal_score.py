"""One number per sample that depends on nothing but the inputs."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["principal_score"]

BLOCK = 8  # directions iterated together: the first one converges as (ninth eigenvalue / first)^ITERATIONS
ITERATIONS = 20


def principal_score(x: Tensor, generator: torch.Generator) -> Tensor:
    """The projection of flattened x on its first principal direction, with mean 0 and variance 1.

        s_i = (v'x_i - mean) / std,    v = argmax_{|v| = 1} v'Cov(x)v,

    by block power iteration, which the generator starts. ``(n, ...)`` to ``(n,)`` float64, all zeros where x
    is constant. The sign of v makes its first large entry (at least half of the largest) positive.

    >>> x = torch.tensor([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0]])
    >>> [round(s, 2) for s in principal_score(x, torch.Generator().manual_seed(0)).tolist()]
    [-1.22, 0.0, 1.22]
    """
    flat = x.reshape(len(x), -1).to(torch.float32)
    if not bool(flat.isfinite().all()):
        raise ValueError("x: expected finite inputs, came NaN or infinity; clean them before shifting")
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
    """The sign of the first large entry. The largest itself would not do: (1, -1) / sqrt(2) has two."""
    large = direction.abs() >= 0.5 * direction.abs().max()
    return direction[large][0].sign()
