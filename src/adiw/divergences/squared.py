"""Squared distance: one coefficient per validation sample, for a Gaussian kernel centred there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from adiw.argument_checks import is_number
from adiw.divergences.protocol import Side
from adiw.divergences.settings import check_setting, check_step_size, check_width
from adiw.matching.batches import MatchedBatches
from adiw.matching.groups import per_sample
from adiw.matching.kernels import Width, centred_kernels
from adiw.matching.projections import clamp_rescale, non_negative


@dataclass(frozen=True)
class Squared:
    """Squared distance (LSIF).

    min_beta 1/2 beta'H beta - h'beta + penalty 1'beta  subject to  beta >= 0   (Eq. ADIW_lsif_emp),
    with H = mean_i psi(z_i) psi(z_i)' over the training batch, h = mean_j psi(z_j^val), and psi as in ``KL``.
    The weights are beta'psi(z). Their mean is not constrained to one (``ADIW(mean_one=True)`` does that).

    Args:
        width: sigma of the kernel, or "auto" (a third of the typical distance, as for ``KL``).
        step_size: eta.
        penalty: lambda of the l1 penalty.

    >>> import adiw
    >>> z_train, z_val = torch.tensor([0.1, 0.2, 5.0]), torch.tensor([0.1, 0.2])
    >>> weights, _ = adiw.estimate_weights(z_train, z_val, Squared(width=0.5, step_size=0.1), steps=200)
    >>> [round(w, 2) for w in weights.tolist()]
    [1.5, 1.5, 0.0]
    """

    width: Width = 0.1
    step_size: float = 0.01
    penalty: float = 1e-5
    side: ClassVar[Side] = "val"
    cost: ClassVar[str] = "m (n + m)"

    def __post_init__(self) -> None:
        check_width(self)
        check_step_size(self)
        check_setting(self, "penalty", is_number(self.penalty, least=0), "a number from 0")

    def problem(self, batches: MatchedBatches) -> SquaredProblem:
        return SquaredProblem(*quadratic_terms(batches, self.width, self.penalty))


def quadratic_terms(
    batches: MatchedBatches, width: Width, penalty: float, alpha: float = 0.0
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The fields of a ``SquaredProblem``, with a share ``alpha`` of the validation batch in H."""
    psi_train, psi_val, psi_bar = centred_kernels(batches, width)
    h = batches.share_val @ psi_val
    start = clamp_rescale(torch.ones_like(h), psi_bar, batches.membership_val, batches.num_groups)
    root = psi_train / per_sample((batches.num_train / (1 - alpha)).sqrt(), batches.membership_train)[:, None]
    if alpha > 0:
        root = torch.cat([root, psi_val * (alpha * batches.share_val).sqrt()[:, None]])
    return root, h, penalty * batches.included_val.to(h.dtype), psi_train, start


@dataclass(frozen=True)
class SquaredProblem:
    """LSIF for two batches with b kernel centres. H = root'root is never formed."""

    root: Tensor  # (r, b)
    h: Tensor  # (b,)
    penalty: Tensor  # (b,)
    psi_train: Tensor  # (n, b)
    start: Tensor  # (b,)

    def initial(self) -> Tensor:
        return self.start

    def objective(self, params: Tensor) -> Tensor:
        return (self.root @ params).square().sum() / 2 - (self.h - self.penalty) @ params

    def gradient(self, params: Tensor) -> Tensor:
        return torch.addmv(self.penalty - self.h, self.root.T, self.root @ params)

    def project(self, params: Tensor) -> Tensor:
        return non_negative(params)

    def weights(self, params: Tensor) -> Tensor:
        return self.psi_train @ params
