"""A training and a validation batch, transformed to z and matched group by group: what a divergence compares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from adiw.groups import group_sum, same_group, spread


@dataclass(frozen=True)
class Pair:
    """z of both batches. Samples of group -1 take no part: every sum, kernel and gradient passes over them."""

    z_train: Tensor  # (n, d)
    z_val: Tensor  # (m, d)
    group_train: Tensor  # (n,) int64
    group_val: Tensor  # (m,) int64
    num_groups: int = 1
    memory: Mapping[str, Tensor] = field(default_factory=dict)  # of divergences that learn (a critic network)

    def same(self, left: str, right: str) -> Tensor:
        """Which pairs of samples are compared: booleans, e.g. (n, m) for ``same("train", "val")``."""
        groups = {"train": self.group_train, "val": self.group_val}
        return same_group(groups[left], groups[right])

    def sum_train(self, values: Tensor) -> Tensor:
        """Sum of (n,) over the training samples of each group: (num_groups,)."""
        return group_sum(values, self.group_train, self.num_groups)

    def sum_val(self, values: Tensor) -> Tensor:
        """Sum of (m,) over the validation samples of each group: (num_groups,)."""
        return group_sum(values, self.group_val, self.num_groups)

    @property
    def num_train(self) -> Tensor:
        """Training samples in each group (num_groups,), at least one so that it can divide."""
        return self.sum_train(torch.ones_like(self.z_train[:, 0])).clamp_min(1)

    @property
    def num_val(self) -> Tensor:
        """Validation samples in each group (num_groups,), at least one so that it can divide."""
        return self.sum_val(torch.ones_like(self.z_val[:, 0])).clamp_min(1)


def match(
    z_train: Tensor,
    z_val: Tensor,
    group_train: Tensor | None = None,
    group_val: Tensor | None = None,
    num_groups: int = 1,
    minimum: int = 1,
) -> Pair:
    """Pair z_train (n, d) with z_val (m, d), leaving out what cannot be compared.

    Left out are samples whose z is not finite, and all samples of a group that has fewer than ``minimum`` samples
    on either side (Algorithm 2 asks for two).

    >>> match(torch.tensor([[0.0], [float("nan")]]), torch.tensor([[1.0]])).group_train
    tensor([ 0, -1])
    """
    train, finite_train = _finite(z_train, group_train)
    val, finite_val = _finite(z_val, group_val)
    ones_train, ones_val = torch.ones_like(finite_train[:, 0]), torch.ones_like(finite_val[:, 0])
    enough = (group_sum(ones_train, train, num_groups) >= minimum) & (group_sum(ones_val, val, num_groups) >= minimum)
    train = torch.where((train >= 0) & spread(enough, train), train, -1)
    val = torch.where((val >= 0) & spread(enough, val), val, -1)
    return Pair(finite_train, finite_val, train, val, num_groups)


def _finite(z: Tensor, group: Tensor | None) -> tuple[Tensor, Tensor]:
    """(group with -1 where z is not finite, z with a finite sample's value there, or zero when there is none)."""
    finite = z.isfinite().all(1)
    group = torch.zeros_like(finite, dtype=torch.long) if group is None else group
    stand_in = z.index_select(0, finite.to(torch.uint8).argmax().view(1)).nan_to_num(0, 0, 0)
    return torch.where(finite, group, -1), torch.where(finite[:, None], z, stand_in)
