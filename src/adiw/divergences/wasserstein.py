"""Wasserstein-1 distance: one weight per training sample, moved along the optimal critic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

from adiw.arguments import is_count, is_number, is_positive
from adiw.divergences import critic
from adiw.divergences.protocol import Problem, Side, check_setting, check_step_size, check_width
from adiw.matching.batches import MatchedBatches
from adiw.matching.groups import group_order, group_sum, masked, per_sample
from adiw.matching.kernels import Width, resolve_width
from adiw.matching.projections import box_mean_band


@dataclass(frozen=True)
class Wasserstein:
    """min_w n W1(p_val, w p_train)  subject to  w >= 0,  mean(w) = 1   (Eqs. ADIW_wa and ADIW_wa_reg).

    The gradient is -Phi(z_i) for the best critic Phi with slopes of at most one, not divided by n.

    Args:
        critic: "exact" for scalar z, where sorting gives the best critic; "network" for the paper's critic network
            with gradient penalty, which works in any dimension; "auto" takes the exact one where it can.
        scale: the unit in which z is measured, or "auto" (the typical distance). A step moves a weight by
            step_size for each unit between two samples.
        step_size: eta. The paper's 0.01 separates clean from mislabelled samples too slowly.
        penalty: kappa of the gradient penalty.
        pretrain: batches that train the network without the penalty before the weights begin to move.
        updates: updates of the network for each batch after that.
        learning_rate: of Adam, for the network.

    >>> import adiw
    >>> z_train, z_val = torch.tensor([0.1, 0.2, 5.0]), torch.tensor([0.1, 0.2])
    >>> weights, _ = adiw.estimate_weights(z_train, z_val, Wasserstein(), steps=9)
    >>> bool(weights[2] < 0.05)
    True
    """

    critic: Literal["auto", "exact", "network"] = "auto"
    scale: Width = 1.0
    step_size: float = 0.1
    penalty: float = 10.0
    pretrain: int = 50
    updates: int = 3
    learning_rate: float = 1e-4
    side: ClassVar[Side] = "train"

    def __post_init__(self) -> None:
        known = ("auto", "exact", "network")
        check_setting(self, "critic", self.critic in known, f"one of {', '.join(map(repr, known))}")
        check_width(self, "scale")
        check_step_size(self)
        check_setting(self, "penalty", is_number(self.penalty, least=0), "a number from 0")
        check_setting(self, "pretrain", is_count(self.pretrain), "a count from 0")
        check_setting(self, "updates", is_count(self.updates, least=1), "a count from 1")
        check_setting(self, "learning_rate", is_positive(self.learning_rate), "a positive number")

    def problem(self, batches: MatchedBatches) -> Problem:
        unit = resolve_width(self.scale, batches, fraction=1.0)
        if not self._uses_network(batches.z_train.shape[1]):
            return SortedProblem.build(batches, unit)
        batches = _grounded(batches, unit)
        z, group = torch.cat([batches.z_train, batches.z_val]), torch.cat([batches.group_train, batches.group_val])
        both = critic.evaluate(batches.memory["theta"], z / unit, group, batches.num_groups)
        phi, phi_val = both.split([len(batches.z_train), len(batches.z_val)])
        ready = batches.memory["batches"] > self.pretrain
        offset = (batches.num_train * batches.sum_val(phi_val) / batches.num_val).sum()
        return CriticProblem(phi * ready, offset * ready, batches.of_train, batches.num_groups)

    def start(self, dim: int, num_groups: int, like: Tensor, generator: Generator) -> dict[str, Tensor]:
        if not self._uses_network(dim):
            return {}
        return critic.start(dim, num_groups, like, generator)

    def learn(
        self, batches: MatchedBatches, weights: Tensor, memory: Mapping[str, Tensor], generator: Generator
    ) -> dict[str, Tensor]:
        if not memory:
            return {}
        unit = resolve_width(self.scale, batches, fraction=1.0)
        penalty = torch.where(memory["batches"] < self.pretrain, 0, self.penalty)
        batches = _grounded(batches, unit)
        memory = critic.learn(batches, unit, weights, memory, penalty, self.updates, self.learning_rate, generator)
        return {**memory, "batches": memory["batches"] + 1}

    def _uses_network(self, dim: int) -> bool:
        if self.critic == "exact" and dim > 1:
            raise ValueError(
                f"Wasserstein: the exact critic needs scalar z, got {dim} numbers per sample: "
                'use critic="network" (or "auto")'
            )
        return self.critic == "network" or dim > 1


def _grounded(batches: MatchedBatches, unit: float | Tensor) -> MatchedBatches:
    """Samples that are left out moved to zero, and none further away than a network can add up."""
    info = torch.finfo(batches.z_train.dtype)
    far = batches.z_train.new_full((), info.max * info.eps) * unit
    z_train = torch.where(batches.used_train[:, None], batches.z_train, 0).clamp(-far, far)
    return replace(
        batches, z_train=z_train, z_val=torch.where(batches.used_val[:, None], batches.z_val, 0).clamp(-far, far)
    )


@dataclass(frozen=True)
class CriticProblem:
    """J(w) = n E_val[Phi] - sum_i w_i Phi(z_i) for a critic held fixed."""

    phi: Tensor  # (n,)
    offset: Tensor  # scalar, n E_val[Phi]
    group: Tensor | None  # (n,), None for a single one of all
    num_groups: int

    def initial(self) -> Tensor:
        return torch.ones_like(self.phi)

    def objective(self, params: Tensor) -> Tensor:
        return self.offset - masked(self.group, self.phi * params).sum()

    def gradient(self, params: Tensor) -> Tensor:
        return masked(self.group, -self.phi)

    def project(self, params: Tensor) -> Tensor:
        return box_mean_band(params, group=self.group, num_groups=self.num_groups)

    def weights(self, params: Tensor) -> Tensor:
        return params


@dataclass(frozen=True)
class SortedProblem:
    """J(w) = n W1 for scalar z, exactly: W1 is the area between the two distribution functions.

    Over the sorted samples x_k of both batches, W1 = sum_k (x_{k+1} - x_k) |F_w(x_k) - F_val(x_k)|, and on each gap
    the best critic has the slope sign(F_val - F_w).
    """

    order: Tensor  # (n + m,) sorts both batches, group by group
    gap: Tensor  # (n + m,) in that order: to the next sample of the group, zero behind the last
    owner: Tensor | None  # (n + m,) in that order: the group; those left out are in the first. None for a single one
    share_train: Tensor  # (n,) one over the size of the sample's group, zero when left out
    share_val: Tensor  # (m,) the same of validation samples
    num_train: Tensor  # (num_groups,)
    group: Tensor | None  # (n,), None for a single one of all

    @classmethod
    def build(cls, batches: MatchedBatches, unit: float | Tensor) -> SortedProblem:
        z = torch.cat([batches.z_train[:, 0], batches.z_val[:, 0]])
        used = torch.cat([batches.used_train, batches.used_val])
        owner = torch.cat([batches.group_train, batches.group_val]) if batches.num_groups > 1 else None
        # A sample that is left out has no mass. It stands on the first sample of group 0, so as not to add a gap.
        here = used if owner is None else owner == 0
        first = torch.where(here, z, torch.inf).min().clamp_max(torch.finfo(z.dtype).max)
        z = torch.where(used, z, first)
        z = z if isinstance(unit, float) and unit == 1 else z / unit
        owner = None if owner is None else owner.clamp_min(0)
        order = z.argsort() if owner is None else group_order(z, owner, batches.num_groups)
        far = torch.finfo(z.dtype).max / (8 * len(z))  # all gaps together are still a number
        z = z[order].clamp(-far, far)
        gap = z.diff(append=z[-1:])
        if owner is not None:
            owner = owner[order]
            gap = torch.where(owner == torch.cat([owner[1:], owner[-1:]]), gap, 0)
        share = batches.used_train / per_sample(batches.num_train, batches.of_train)
        return cls(order, gap, owner, share, batches.share_val, batches.num_train, batches.of_train)

    def initial(self) -> Tensor:
        return torch.ones_like(self.share_train)

    def objective(self, params: Tensor) -> Tensor:
        return (per_sample(self.num_train, self.owner) * self.gap * self._difference(params).abs()).sum()

    def gradient(self, params: Tensor) -> Tensor:
        rise = self.gap * self._difference(params).sign()
        above = rise - rise.cumsum(0) + self._until_end(rise)  # summed from each sample to its group's end
        unsorted = torch.empty_like(above).scatter_(0, self.order, above)
        return masked(self.group, unsorted[: len(params)])

    def project(self, params: Tensor) -> Tensor:
        return box_mean_band(params, group=self.group, num_groups=len(self.num_train))

    def weights(self, params: Tensor) -> Tensor:
        return params

    def _difference(self, params: Tensor) -> Tensor:
        """F_w - F_val behind each sorted sample, (n + m,)."""
        change = torch.cat([self.share_train * params, -self.share_val])[self.order]
        running = change.cumsum(0)
        return running if self.owner is None else running - (self._until_end(change) - self._own(change))

    def _until_end(self, values: Tensor) -> Tensor:
        """The running sum of (n + m,) at the end of each sample's group."""
        return per_sample(group_sum(values, self.owner, len(self.num_train)).cumsum(0), self.owner)

    def _own(self, values: Tensor) -> Tensor:
        """The sum of (n + m,) over each sample's group."""
        return per_sample(group_sum(values, self.owner, len(self.num_train)), self.owner)
