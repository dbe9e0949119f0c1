"""Density ratios from a kernel model of unit mass: what the divergences beyond Kullback-Leibler share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from adiw.divergences.kl import KLProblem
from adiw.divergences.settings import Update
from adiw.matching.batches import MatchedBatches
from adiw.matching.groups import group_max, group_sum, masked, per_sample
from adiw.matching.kernels import Width, centred_kernels
from adiw.matching.projections import mass_or_one, smallest_mass

# The largest step, and the largest coefficient of a centre without training samples nearby, relative to the largest
# of the others: their digits are lost beside a larger one.
FARTHEST = 1e6


@dataclass(frozen=True)
class DensityRatioProblem(KLProblem):
    """min_beta fit(s)  subject to  beta >= 0,  mean_i s_i = 1,  for s = beta'psi at the samples of both batches.

    The feasible set, its projections and ``update`` are those of ``KL``. A subclass has the fit and its derivative.
    """

    @classmethod
    def build(cls, batches: MatchedBatches, width: Width, update: Update, **more: Any) -> Self:
        """The problem with a kernel centred on each validation sample; ``more`` are a subclass's fields."""
        psi_train, psi_val, psi_bar = centred_kernels(batches, width)
        groups = (batches.membership_train, batches.membership_val, batches.num_groups)
        return cls(psi_val, psi_bar, psi_train, batches.share_val, *groups, update, **more)

    @abstractmethod
    def fit(self, s_train: Tensor, s_val: Tensor) -> Tensor:
        """The loss of the model, a scalar, from its values (n,) and (m,)."""

    @abstractmethod
    def slopes(self, s_train: Tensor, s_val: Tensor) -> tuple[Tensor | None, Tensor]:
        """The derivatives of ``fit``: (n,), or None if they are zero, and (m,)."""

    def objective(self, params: Tensor) -> Tensor:
        if self.update == "optimum":
            params = params / per_sample(mass_or_one(self._mass(params)), self.group_centre)
        return self.fit(self.psi_train @ params, self._density(params))

    def gradient(self, params: Tensor) -> Tensor:
        if self.update != "optimum":
            return self._plain_gradient(params)
        # d J(beta / mass) / d beta, with mass = psi_bar'beta
        mass = per_sample(mass_or_one(self._mass(params)), self.group_centre)
        unit = params / mass
        plain = self._plain_gradient(unit)
        along = self.psi_bar * per_sample(
            group_sum(plain * unit, self.group_centre, self.num_groups), self.group_centre
        )
        rounding = (plain - along).abs() <= 16 * torch.finfo(params.dtype).eps * plain.abs()
        far = FARTHEST * self._largest(params)
        return (torch.where(rounding, 0, plain - along) / mass).clamp(-far, far)

    def project(self, params: Tensor) -> Tensor:
        if self.update != "euclidean":
            reached = self.psi_bar > smallest_mass(params.dtype)
            far = FARTHEST * self._largest(torch.where(reached, params, 0))
            params = torch.where(reached, params, torch.minimum(params, far))
        return super().project(params)

    def _largest(self, params: Tensor) -> Tensor:
        """The largest coefficient of each centre's group, (b,) or (1,)."""
        used = masked(self.group_centre, params).clamp_min(0)
        if self.group_centre is None or self.num_groups == 1:
            return mass_or_one(used.amax(0, keepdim=True))
        return per_sample(mass_or_one(group_max(used, self.group_centre, self.num_groups)), self.group_centre)

    def _plain_gradient(self, params: Tensor) -> Tensor:
        of_train, of_val = self.slopes(self.psi_train @ params, self._density(params))
        gradient = self.psi_val.T @ of_val
        return gradient if of_train is None else torch.addmv(gradient, self.psi_train.T, of_train)
