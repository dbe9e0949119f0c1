"""Power divergences: Pearson's chi-square, squared Hellinger, and Kullback-Leibler as members of one family."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from adiw.argument_checks import is_number
from adiw.divergences.density_ratio import DensityRatioProblem
from adiw.divergences.settings import RatioSettings, check_setting
from adiw.matching.batches import MatchedBatches
from adiw.matching.groups import group_sum, is_included, per_sample
from adiw.matching.kernels import Width
from adiw.matching.projections import smallest_mass


@dataclass(frozen=True)
class Power(RatioSettings):
    """Power divergence (Cressie and Read), by default Pearson's chi-square.

    D(p_val, p_train) = E_train[r^(1+power) - r] / (power (1+power)) for the density ratio r: Pearson's chi-square at
    power 1, Kullback-Leibler at 0, squared Hellinger at -1/2. Its variational form is convex for the kernel model
    s = r^(1+power) = beta'psi, with q = power / (1 + power):

        min_beta -mean_j (s_j^q - 1) / q  subject to  beta >= 0,  mean_i s_i = 1.

    The weights are s^(1-q), divided by their mean.

    Args:
        width, step_size, update: as for ``KL``.
        power: the member of the family, at least -1/2. Larger powers give flatter weights after few steps.

    >>> import adiw
    >>> z_train, z_val = torch.tensor([0.1, 0.2, 5.0]), torch.tensor([0.1, 0.2])
    >>> weights, _ = adiw.estimate_weights(z_train, z_val, Power())
    >>> [round(w, 2) for w in weights.tolist()]
    [1.5, 1.5, 0.0]
    """

    power: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_setting(self, "power", is_number(self.power, least=-0.5), "a number from -0.5")

    def problem(self, batches: MatchedBatches) -> PowerProblem:
        return PowerProblem.build(batches, self.width, self.update, q=self.power / (1 + self.power))


@dataclass(frozen=True)
class Hellinger(Power):
    """Squared Hellinger distance, the power divergence of -1/2.

    min_beta mean_j 1 / s_j  subject to  beta >= 0,  mean_i s_i = 1,  for the root of the ratio, s = beta'psi.
    The weights are s^2, divided by their mean: few steps already separate samples with a small ratio.

    >>> import adiw
    >>> weights, _ = adiw.estimate_weights(torch.tensor([0.1, 0.2, 5.0]), torch.tensor([0.1, 0.2]), Hellinger())
    >>> [round(w, 2) for w in weights.tolist()]
    [1.5, 1.5, 0.0]
    """

    width: Width = "auto"  # the square of a kernel of a fixed width is too narrow where losses are close together
    step_size: float = 0.01  # of a steep objective
    power: float = -0.5


@dataclass(frozen=True)
class PowerProblem(DensityRatioProblem):
    """The fit -mean_j (s_j^q - 1) / q, which is -mean_j log s_j for q = 0."""

    q: float

    def fit(self, s_train: Tensor, s_val: Tensor) -> Tensor:
        gain = s_val.log() if self.q == 0 else (s_val.pow(self.q) - 1) / self.q
        return -(self.share * gain).sum()

    def slopes(self, s_train: Tensor, s_val: Tensor) -> tuple[None, Tensor]:
        return None, -self.share * s_val.pow(self.q - 1)

    def weights(self, params: Tensor) -> Tensor:
        ratio = (self.psi_train @ params).clamp_min(0).pow(1 - self.q)
        used = torch.ones_like(ratio, dtype=torch.bool) if self.group_train is None else is_included(self.group_train)
        sums = (group_sum(values, self.group_train, self.num_groups) for values in (ratio, used.to(ratio.dtype)))
        total, count = (per_sample(values, self.group_train) for values in sums)
        reached = total > smallest_mass(ratio.dtype)  # otherwise no training sample is near a centre
        return torch.where(reached, ratio * count / torch.where(reached, total, 1), 1)
