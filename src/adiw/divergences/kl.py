"""Kullback-Leibler divergence: one coefficient per validation sample, for a Gaussian kernel centred there."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from adiw.divergences.settings import RatioSettings, Update
from adiw.matching.batches import MatchedBatches, known_above
from adiw.matching.groups import group_sum, per_sample
from adiw.matching.kernels import centred_kernels
from adiw.matching.projections import (
    clamp_rescale,
    clamp_to_one,
    has_mass,
    mass_or_one,
    rescale,
    smallest_mass,
    weighted_simplex,
)


@dataclass(frozen=True)
class KL(RatioSettings):
    """Kullback-Leibler divergence (KLIEP).

    min_beta -mean_j log beta'psi(z_j^val)  subject to  beta >= 0,  beta'psi_bar = 1   (Eq. ADIW_kliep_emp).
    psi_l(z) is the Gaussian kernel between z and validation sample l, and psi_bar its mean over the training batch.
    The weights are beta'psi(z); by the constraint their mean is one.

    Args:
        width: sigma of the kernel, or "auto" (a third of the typical distance: about 0.5 on cross-entropy).
        step_size: eta.
        update: how a step returns to the feasible set.
            "rescale" takes the plain gradient, clamps at zero and rescales. Use it for training: it is stable and
                keeps mislabelled samples near zero, although its fixed point is not KLIEP's optimum.
            "optimum" takes the gradient of the rescaled objective, then clamps and rescales. Its fixed points are
                KLIEP's optima. In long training, weights of mislabelled samples grow as the network memorises them.
            "euclidean" takes the plain gradient and the nearest feasible point. Its fixed points are KLIEP's optima
                too, but beta concentrates on centres with few training samples nearby.

    >>> import adiw
    >>> weights, _ = adiw.estimate_weights(torch.tensor([0.1, 0.2, 5.0]), torch.tensor([0.1, 0.2]), KL())
    >>> [round(w, 2) for w in weights.tolist()]
    [1.5, 1.5, 0.0]
    """

    def problem(self, batches: MatchedBatches) -> KLProblem:
        psi_train, psi_val, psi_bar = centred_kernels(batches, self.width)
        groups = (batches.membership_train, batches.membership_val, batches.num_groups)
        return KLProblem(psi_val, psi_bar, psi_train, batches.share_val, *groups, self.update)


@dataclass(frozen=True)
class KLProblem:
    """KLIEP for two batches with b kernel centres (in training, the m validation samples)."""

    psi_val: Tensor  # (m, b)
    psi_bar: Tensor  # (b,)
    psi_train: Tensor  # (n, b)
    share: Tensor  # (m,) one over the size of the sample's group, zero for excluded samples
    group_train: Tensor | None  # (n,), None for a single group without excluded samples
    group_centre: Tensor | None  # (b,), likewise
    num_groups: int
    update: Update

    def initial(self) -> Tensor:
        if self.num_groups == 1:
            return mass_or_one(self.psi_bar.sum()).reciprocal().expand_as(self.psi_bar)
        return clamp_rescale(torch.ones_like(self.psi_bar), self.psi_bar, self.group_centre, self.num_groups)

    def objective(self, params: Tensor) -> Tensor:
        fit = -(self.share * self._density(params).log()).sum()
        if self.update != "optimum":
            return fit
        return fit + mass_or_one(self._mass(params)).log().sum()

    def gradient(self, params: Tensor) -> Tensor:
        plain = torch.addmv(params, self.psi_val.T, self.share / self._density(params), beta=0, alpha=-1)
        if self.update != "optimum":
            return plain
        mass = per_sample(self._mass(params), self.group_centre)
        return plain + torch.where(mass > smallest_mass(mass.dtype), self.psi_bar / mass_or_one(mass), 0)

    def project(self, params: Tensor) -> Tensor:
        if self.update == "euclidean":
            return weighted_simplex(params, self.psi_bar, 1.0, self.group_centre, self.num_groups)
        params = clamp_to_one(params, self.group_centre, self.num_groups)
        return rescale(params, self._mass(params), self.group_centre)

    def weights(self, params: Tensor) -> Tensor:
        weights, mass = self.psi_train @ params, self._mass(params)
        if self.num_groups == 1 and known_above(mass, 0.5):  # it is one after a projection
            return weights
        reached = has_mass(mass, self.group_train)
        return torch.where(reached, weights, 1)  # uniform where no training sample is near a centre

    def _density(self, params: Tensor) -> Tensor:
        """beta'psi(z_j^val), (m,), bounded away from zero."""
        return (self.psi_val @ params).clamp_min(torch.finfo(params.dtype).eps)

    def _mass(self, params: Tensor) -> Tensor:
        """beta'psi_bar of each group, (num_groups,). psi_bar is zero at excluded centres."""
        if self.num_groups == 1:
            return torch.dot(self.psi_bar, params).view(1)
        return group_sum(self.psi_bar * params, self.group_centre, self.num_groups)
