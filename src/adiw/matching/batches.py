"""A training and a validation batch, transformed to z and matched group by group: what a divergence compares."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from adiw.matching.groups import group_sum, per_sample, same_group, taking_part


class cached_tensor_property:  # noqa: N801 - used as functools.cached_property is
    """A property worked out when it is first asked for. ``functools.cached_property`` holds a lock in Python 3.11,
    which torch.compile does not trace.
    """

    def __init__(self, method: Callable[[Any], Tensor]) -> None:
        self.method, self.__doc__ = method, method.__doc__

    def __get__(self, owner: Any, kind: type) -> Tensor:
        value = self.method(owner)
        object.__setattr__(owner, self.method.__name__, value)
        return value


@dataclass(frozen=True)
class MatchedBatches:
    """z of both batches. Samples that are left out take no part: sums, kernels and gradients pass over them.

    ``of_train`` and ``of_val`` are groups as ``adiw.matching.groups`` takes them: integers, or booleans for a single
    group, or both None where no sample is left out of it.
    The z of a sample that is left out is some finite number. In a single group of scalars it is as far from those
    that take part as can be, so that a kernel between them is zero by itself.
    """

    z_train: Tensor  # (n, d)
    z_val: Tensor  # (m, d)
    of_train: Tensor | None  # (n,)
    of_val: Tensor | None  # (m,)
    num_groups: int = 1
    memory: Mapping[str, Tensor] = field(default_factory=dict)  # of divergences that learn (a critic network)

    @cached_tensor_property
    def group_train(self) -> Tensor:
        """(n,) int64: the group of each training sample, -1 for those left out."""
        return _numbered(self.used_train if self.of_train is None else self.of_train)

    @cached_tensor_property
    def group_val(self) -> Tensor:
        """(m,) int64: the group of each validation sample, -1 for those left out."""
        return _numbered(self.used_val if self.of_val is None else self.of_val)

    @cached_tensor_property
    def used_train(self) -> Tensor:
        """(n,) booleans: the training samples that take part."""
        return _all(self.z_train) if self.of_train is None else taking_part(self.of_train)

    @cached_tensor_property
    def used_val(self) -> Tensor:
        """(m,) booleans: the validation samples that take part."""
        return _all(self.z_val) if self.of_val is None else taking_part(self.of_val)

    def taking_part(self, side: str) -> Tensor | None:
        """``used_train`` or ``used_val``, and None where that is known to be everybody."""
        if self.of_train is None:
            return None
        return self.used_train if side == "train" else self.used_val

    def same(self, left: str, right: str) -> Tensor:
        """Which pairs of samples are compared: booleans, e.g. (n, m) for ``same("train", "val")``."""
        of_train = self.used_train if self.of_train is None else self.of_train
        groups = {"train": of_train, "val": self.used_val if self.of_val is None else self.of_val}
        return same_group(groups[left], groups[right])

    def sum_train(self, values: Tensor) -> Tensor:
        """Sum of (n,) over the training samples of each group: (num_groups,)."""
        return group_sum(values, self.of_train, self.num_groups)

    def sum_val(self, values: Tensor) -> Tensor:
        """Sum of (m,) over the validation samples of each group: (num_groups,)."""
        return group_sum(values, self.of_val, self.num_groups)

    @cached_tensor_property
    def num_train(self) -> Tensor:
        """Training samples in each group (num_groups,), at least one so that it can divide."""
        return self._count(self.z_train, self.of_train)

    @cached_tensor_property
    def num_val(self) -> Tensor:
        """Validation samples in each group (num_groups,), at least one so that it can divide."""
        return self._count(self.z_val, self.of_val)

    @cached_tensor_property
    def share_val(self) -> Tensor:
        """(m,) one over the size of the validation sample's group, zero for those left out."""
        if self.of_val is None:
            return self.z_val.new_full((len(self.z_val),), 1 / len(self.z_val))
        return self.used_val / per_sample(self.num_val, self.of_val)

    def _count(self, z: Tensor, group: Tensor | None) -> Tensor:
        if group is None:
            return z.new_full((1,), len(z))
        if self.num_groups == 1:
            return taking_part(group).sum(0, keepdim=True, dtype=self.z_train.dtype).clamp_min(1)
        return group_sum(torch.ones_like(group, dtype=self.z_train.dtype), group, self.num_groups).clamp_min(1)


def match(
    z_train: Tensor,
    z_val: Tensor,
    group_train: Tensor | None = None,
    group_val: Tensor | None = None,
    num_groups: int = 1,
    minimum: int = 1,
) -> MatchedBatches:
    """Pair z_train (n, d) with z_val (m, d), leaving out what cannot be compared.

    Left out are samples whose z is not finite, and all samples of a group that has fewer than ``minimum`` samples
    on either side (Algorithm 2 asks for two).

    >>> match(torch.tensor([[0.0], [float("nan")]]), torch.tensor([[1.0]])).group_train
    tensor([ 0, -1])
    """
    if group_train is None and group_val is None and minimum == 1 and z_train.shape[1] == 1:
        return _match_scalars(z_train, z_val)
    train, val = _finite(z_train, group_train), _finite(z_val, group_val)
    ones_train, ones_val = torch.ones_like(z_train[:, 0]), torch.ones_like(z_val[:, 0])
    enough = (group_sum(ones_train, train, num_groups) >= minimum) & (group_sum(ones_val, val, num_groups) >= minimum)
    train = torch.where((train >= 0) & per_sample(enough, train), train, -1)
    val = torch.where((val >= 0) & per_sample(enough, val), val, -1)
    return MatchedBatches(_hide(z_train, train), _hide(z_val, val), train, val, num_groups)


def is_finite(values: Tensor) -> Tensor:
    """``values.isfinite()`` in two kernels rather than four: this is asked of every loss in every step.

    >>> is_finite(torch.tensor([1.0, float("nan"), float("-inf")]))
    tensor([ True, False, False])
    """
    return values.abs() < torch.inf


def finite_part(values: Tensor) -> Tensor | None:
    """Which values are finite, or None where all are and a CPU can see it: on a GPU, looking would stall the step.

    >>> finite_part(torch.tensor([1.0, float("nan")])), finite_part(torch.tensor([1.0, 2.0]))
    (tensor([ True, False]), None)
    """
    return None if seen_finite(values) else is_finite(values)


def seen_finite(values: Tensor) -> bool:
    """Whether all values are finite and a CPU can see it."""
    return host_may_look(values) and math.isfinite(_number(values.sum()))


def unless_true(flag: Tensor) -> Tensor | None:
    """The flag, a boolean on the device; None where a CPU can see that it is true."""
    return None if host_may_look(flag) and _number(flag) == 1 else flag


def host_may_look(values: Tensor) -> bool:
    """Whether a number of this tensor can be asked for without waiting for a device, or breaking a compiled step."""
    return values.is_cpu and not torch.compiler.is_compiling()


def _number(value: Tensor) -> float:
    """The value of a scalar on the CPU; nan within ``torch.vmap``, where it is not one number."""
    try:
        return float(value.item())
    except RuntimeError:
        return math.nan


def _match_scalars(z_train: Tensor, z_val: Tensor) -> MatchedBatches:
    """Everybody in one group. What is not finite goes as far away as it can, to one side or the other."""
    if seen_finite(z_train) and seen_finite(z_val):
        return MatchedBatches(
            z_train.clone(), z_val.clone(), None, None
        )  # copies, as below: the others are the method's own
    train, val = is_finite(z_train), is_finite(z_val)
    train, val = train & val.any(), val & train.any()
    away = torch.finfo(z_train.dtype).max
    z_train, z_val = z_train.nan_to_num(away, away, away), z_val.nan_to_num(-away, -away, -away)
    return MatchedBatches(z_train, z_val, train[:, 0], val[:, 0])


def _finite(z: Tensor, group: Tensor | None) -> Tensor:
    """The group of each sample (n,), -1 where z is not finite."""
    finite = z.isfinite().all(1)
    return torch.where(finite, torch.zeros_like(finite, dtype=torch.long) if group is None else group, -1)


def _hide(z: Tensor, group: Tensor) -> Tensor:
    """z with the first used sample's value for those left out (zero when there is none): it costs nobody a digit."""
    used = group >= 0
    stand_in = z.index_select(0, used.to(torch.uint8).argmax().view(1)).nan_to_num(0, 0, 0)
    return torch.where(used[:, None], z, stand_in)


def _all(z: Tensor) -> Tensor:
    return torch.ones_like(z[:, 0], dtype=torch.bool)


def _numbered(group: Tensor) -> Tensor:
    return group.long() - 1 if group.dtype == torch.bool else group
