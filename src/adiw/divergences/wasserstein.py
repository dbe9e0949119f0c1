"""Wasserstein-1 distance: one weight per training sample, moved along the optimal critic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

from adiw.argument_checks import is_count, is_number, is_positive
from adiw.divergences import critic, critic_training
from adiw.divergences.protocol import Problem, Side
from adiw.divergences.settings import check_choice, check_setting, check_step_size, check_width
from adiw.divergences.sliced import SlicedProblem
from adiw.matching.batches import MatchedBatches
from adiw.matching.groups import masked
from adiw.matching.kernels import Width, resolve_width
from adiw.matching.projections import box_mean_band


@dataclass(frozen=True)
class Wasserstein:
    """Wasserstein-1 distance.

    min_w n W1(p_val, w p_train)  subject to  w >= 0,  mean(w) = 1   (Eqs. ADIW_wa and ADIW_wa_reg).
    The gradient is -Phi(z_i) for the optimal critic Phi with slopes of at most one; it is not divided by n.

    Args:
        critic: "exact" computes the optimal critic by sorting and needs scalar z; "network" is the paper's critic
            network with gradient penalty, for any dimension; "auto" is "exact" for scalars and "network" otherwise.
        scale: the unit of z, or "auto" (the typical distance). z is divided by it.
        step_size: eta. A step moves a weight by at most step_size for each unit of distance.
        penalty: kappa of the gradient penalty.
        pretrain: number of batches that train the network, without penalty, before the weights change.
        updates: updates of the network per batch.
        learning_rate: that of Adam, which trains the network.

    >>> import adiw
    >>> z_train, z_val = torch.tensor([0.1, 0.2, 5.0]), torch.tensor([0.1, 0.2])
    >>> weights, _ = adiw.estimate_weights(z_train, z_val, Wasserstein(), steps=40)
    >>> bool(weights[2] < 0.05)
    True
    """

    critic: Literal["auto", "exact", "network"] = "auto"
    scale: Width = "auto"
    step_size: float = 0.03
    penalty: float = 10.0
    pretrain: int = 50
    updates: int = 3
    learning_rate: float = 1e-4
    side: ClassVar[Side] = "train"
    cost: ClassVar[str] = "(n + m) log(n + m); for features a critic network"

    def __post_init__(self) -> None:
        check_choice(self, "critic", ("auto", "exact", "network"))
        check_width(self, "scale")
        check_step_size(self)
        check_setting(self, "penalty", is_number(self.penalty, least=0), "a number from 0")
        check_setting(self, "pretrain", is_count(self.pretrain), "a count from 0")
        check_setting(self, "updates", is_count(self.updates, least=1), "a count from 1")
        check_setting(self, "learning_rate", is_positive(self.learning_rate), "a positive number")

    def problem(self, batches: MatchedBatches) -> Problem:
        unit = resolve_width(self.scale, batches, fraction=1.0)
        if not self._uses_network(batches.z_train.shape[1]):
            return SlicedProblem.build(batches, unit, directions=1)
        ready = batches.memory["batches"] > self.pretrain
        return CriticProblem.build(_for_network(batches, unit), unit, ready)

    def start(self, dim: int, num_groups: int, like: Tensor, generator: Generator) -> dict[str, Tensor]:
        return critic.start(dim, num_groups, like, generator) if self._uses_network(dim) else {}

    def learn(
        self, batches: MatchedBatches, weights: Tensor, memory: Mapping[str, Tensor], generator: Generator
    ) -> dict[str, Tensor]:
        if not memory:
            return {}
        unit = resolve_width(self.scale, batches, fraction=1.0)
        penalty = torch.where(memory["batches"] < self.pretrain, 0, self.penalty)
        batches = _for_network(batches, unit)
        memory = critic_training.train(
            batches, unit, weights, memory, penalty, self.updates, self.learning_rate, generator
        )
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
    """J(w) = n E_val[Phi] - sum_i w_i Phi(z_i) for a critic network Phi held fixed."""

    phi: Tensor  # (n,)
    offset: Tensor  # scalar, n E_val[Phi]
    group: Tensor | None  # (n,), None for a single group without excluded samples
    num_groups: int

    @classmethod
    def build(cls, batches: MatchedBatches, unit: float | Tensor, ready: Tensor) -> CriticProblem:
        """Evaluate the critic in ``batches.memory``; J is zero until the critic is ``ready``, a boolean tensor."""
        z, group = torch.cat([batches.z_train, batches.z_val]), torch.cat([batches.group_train, batches.group_val])
        both = critic.evaluate(batches.memory["theta"], z / unit, group, batches.num_groups)
        phi, phi_val = both.split([len(batches.z_train), len(batches.z_val)])
        offset = (batches.num_train * batches.sum_val(phi_val) / batches.num_val).sum()
        return cls(phi * ready, offset * ready, batches.membership_train, batches.num_groups)

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


def _for_network(batches: MatchedBatches, unit: float | Tensor) -> MatchedBatches:
    """The batches with z clamped, and zero for excluded samples, so that sums in the network stay finite."""
    info = torch.finfo(batches.z_train.dtype)
    far = batches.z_train.new_full((), info.max * info.eps) * unit
    z_train = torch.where(batches.included_train[:, None], batches.z_train, 0).clamp(-far, far)
    z_val = torch.where(batches.included_val[:, None], batches.z_val, 0).clamp(-far, far)
    return replace(batches, z_train=z_train, z_val=z_val)
