"""Relative density ratio: the squared distance to a ratio that is bounded, because it has a mixture below."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from adiw.argument_checks import is_number
from adiw.divergences.settings import check_setting
from adiw.divergences.squared import Squared, SquaredProblem, quadratic_terms
from adiw.matching.batches import MatchedBatches
from adiw.matching.kernels import Width
from adiw.matching.projections import smallest_mass


@dataclass(frozen=True)
class Relative(Squared):
    """Relative Pearson divergence (RuLSIF).

    The ratio p_val / (alpha p_val + (1 - alpha) p_train) is at most 1 / alpha. Its squared error, for r = beta'psi:

        min_beta alpha/2 mean_j r_j^2 + (1 - alpha)/2 mean_i r_i^2 - mean_j r_j + penalty 1'beta  over  beta >= 0.

    The weights are min(r, 1 / alpha). Their mean is not constrained to one (``ADIW(mean_one=True)`` does that).

    Args:
        width: sigma of the kernel, or "auto" (a third of the typical distance).
        step_size: eta, up to 1. Each coefficient's step is divided by its row sum of the Hessian matrix, so that no
            step overshoots.
        penalty: lambda of the l1 penalty.
        alpha: share of the validation distribution, from 0 (the plain ratio, which is not bounded) to below 1.

    >>> import adiw
    >>> z_train, z_val = torch.tensor([0.1, 0.2, 5.0]), torch.tensor([0.1, 0.2])
    >>> weights, _ = adiw.estimate_weights(z_train, z_val, Relative(width=0.5), steps=90)
    >>> [round(w, 2) for w in weights.tolist()]  # 1 / (0.2 + 0.8 * 2/3)
    [1.36, 1.36, 0.0]
    """

    width: Width = 0.01
    step_size: float = 0.1
    alpha: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        valid = is_number(self.alpha, least=0) and self.alpha < 1
        check_setting(self, "alpha", valid, "a number from 0 to below 1")

    def problem(self, batches: MatchedBatches) -> RelativeProblem:
        root, h, penalty, psi_train, start = quadratic_terms(batches, self.width, self.penalty, self.alpha)
        curvature = root.T @ root.sum(1)
        scale = torch.where(curvature > smallest_mass(curvature.dtype), 1 / curvature, 0)
        bound = 1 / self.alpha if self.alpha > 0 else float("inf")
        return RelativeProblem(root, h, penalty, psi_train, start, scale, bound)


@dataclass(frozen=True)
class RelativeProblem(SquaredProblem):
    """RuLSIF for two batches: LSIF with the samples of both in H, and bounded weights."""

    step_scale: Tensor  # (b,)
    bound: float

    def weights(self, params: Tensor) -> Tensor:
        return super().weights(params).clamp_max(self.bound)
