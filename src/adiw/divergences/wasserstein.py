"""Wasserstein-1 distance: one weight per training sample, moved along the optimal critic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

from adiw.divergences import critic
from adiw.divergences.protocol import Problem, Side, check_setting, check_step_size, check_width
from adiw.groups import group_order, group_sum, spread
from adiw.kernels import Width, resolve_width
from adiw.pair import Pair
from adiw.projections import box_mean_band


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
        check_setting(self, "penalty", 0 <= self.penalty < float("inf"), "a number from 0")
        check_setting(self, "pretrain", self.pretrain >= 0, "a count from 0")
        check_setting(self, "updates", self.updates >= 1, "a count from 1")
        check_setting(self, "learning_rate", 0 < self.learning_rate < float("inf"), "a positive number")

    def problem(self, pair: Pair) -> Problem:
        unit = resolve_width(self.scale, pair, fraction=1.0)
        if not self._uses_network(pair.z_train.shape[1]):
            return SortedProblem.build(pair, unit)
        phi = critic.evaluate(pair.memory["theta"], pair.z_train / unit, pair.group_train, pair.num_groups)
        phi_val = critic.evaluate(pair.memory["theta"], pair.z_val / unit, pair.group_val, pair.num_groups)
        ready = pair.memory["batches"] > self.pretrain
        offset = (pair.num_train * pair.sum_val(phi_val) / pair.num_val).sum()
        return CriticProblem(phi * ready, offset * ready, pair.group_train, pair.num_groups)

    def start(self, dim: int, num_groups: int, like: Tensor, generator: Generator) -> dict[str, Tensor]:
        if not self._uses_network(dim):
            return {}
        return critic.start(dim, num_groups, like, generator)

    def learn(
        self, pair: Pair, weights: Tensor, memory: Mapping[str, Tensor], generator: Generator
    ) -> dict[str, Tensor]:
        if not memory:
            return {}
        unit = resolve_width(self.scale, pair, fraction=1.0)
        penalty = torch.where(memory["batches"] < self.pretrain, 0, self.penalty)
        memory = dict(memory)
        for _ in range(self.updates):
            memory = critic.update(pair, unit, weights, memory, penalty, self.learning_rate, generator)
        return {**memory, "batches": memory["batches"] + 1}

    def _uses_network(self, dim: int) -> bool:
        if self.critic == "exact" and dim > 1:
            raise ValueError(
                f"Wasserstein: the exact critic needs scalar z, got {dim} numbers per sample: "
                'use critic="network" (or "auto")'
            )
        return self.critic == "network" or dim > 1


@dataclass(frozen=True)
class CriticProblem:
    """J(w) = n E_val[Phi] - sum_i w_i Phi(z_i) for a critic held fixed."""

    phi: Tensor  # (n,)
    offset: Tensor  # scalar, n E_val[Phi]
    group: Tensor  # (n,)
    num_groups: int

    def initial(self) -> Tensor:
        return torch.ones_like(self.phi)

    def objective(self, params: Tensor) -> Tensor:
        return self.offset - torch.where(self.group >= 0, self.phi * params, 0).sum()

    def gradient(self, params: Tensor) -> Tensor:
        return torch.where(self.group >= 0, -self.phi, 0)

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
    rank: Tensor  # (n,) place of each training sample in that order
    gap: Tensor  # (n + m,) to the next sample of the group, zero behind the last
    mass_val: Tensor  # (n + m,) in that order: 1 / m on validation samples
    scale: Tensor  # (n + m,) in that order: n of the group
    owner: Tensor  # (n + m,) in that order: the group
    group: Tensor  # (n,)
    num_groups: int

    @classmethod
    def build(cls, pair: Pair, unit: float | Tensor) -> SortedProblem:
        z = torch.cat([pair.z_train[:, 0], pair.z_val[:, 0]]) / unit
        group = torch.cat([pair.group_train, pair.group_val])
        owner = group.clamp_min(0)
        # A sample that is left out has no mass. It stands on the first sample of group 0, so as not to add a gap.
        first = torch.where(group == 0, z, torch.inf).min()
        z = torch.where(group >= 0, z, torch.where(first.isfinite(), first, 0))
        order = group_order(z, owner, pair.num_groups)
        rank = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
        z, owner = z[order], owner[order]
        same = owner[1:] == owner[:-1]
        gap = torch.cat([torch.where(same, z[1:] - z[:-1], 0), z.new_zeros(1)])
        share = torch.where(pair.group_val >= 0, 1 / spread(pair.num_val, pair.group_val), 0)
        mass_val = torch.cat([torch.zeros_like(pair.z_train[:, 0]), share])[order]
        scale = spread(pair.num_train, owner)
        rank = rank[: len(pair.z_train)]
        return cls(order, rank, gap, mass_val, scale, owner, pair.group_train, pair.num_groups)

    def initial(self) -> Tensor:
        return torch.ones_like(self.gap[: len(self.rank)])

    def objective(self, params: Tensor) -> Tensor:
        return (self.scale * self.gap * self._difference(params).abs()).sum()

    def gradient(self, params: Tensor) -> Tensor:
        rise = self.gap * self._difference(params).sign()
        total = group_sum(rise, self.owner, self.num_groups).cumsum(0)
        above = spread(total, self.owner) - rise.cumsum(0) + rise  # summed from each sample to its group's end
        return torch.where(self.group >= 0, above[self.rank], 0)

    def project(self, params: Tensor) -> Tensor:
        return box_mean_band(params, group=self.group, num_groups=self.num_groups)

    def weights(self, params: Tensor) -> Tensor:
        return params

    def _difference(self, params: Tensor) -> Tensor:
        """F_w - F_val behind each sorted sample, (n + m,)."""
        kept = torch.where(self.group >= 0, params, 0)
        mass = torch.cat([kept, torch.zeros_like(self.mass_val[len(kept) :])])[self.order] / self.scale
        change = mass - self.mass_val
        total = group_sum(change, self.owner, self.num_groups)
        return change.cumsum(0) - spread(total.cumsum(0) - total, self.owner)
