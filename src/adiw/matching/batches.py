"""A training and a validation batch, transformed to z and matched group by group: what a divergence compares."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from adiw.matching.groups import group_numbers, group_sum, is_included, per_sample, same_group


class cached_tensor_property:  # noqa: N801 - named like functools.cached_property
    """``functools.cached_property`` without the lock that it has in Python 3.11: torch.compile cannot trace that."""

    def __init__(self, method: Callable[[Any], Tensor]) -> None:
        self.method, self.__doc__ = method, method.__doc__

    def __get__(self, owner: Any, kind: type) -> Tensor:
        value = self.method(owner)
        object.__setattr__(owner, self.method.__name__, value)
        return value


@dataclass(frozen=True)
class Kept:
    """What is computed from trusted samples that are all finite, until they are evaluated again."""

    z: Tensor  # (m, d) a copy: a divergence must not change the tensors of the caller
    kernels: dict[float, Tensor] = field(default_factory=dict)  # Gaussian ones between the samples, by width

    @cached_tensor_property
    def share(self) -> Tensor:
        """(m,) one over m."""
        return self.z.new_full((len(self.z),), 1 / len(self.z))


@dataclass(frozen=True)
class MatchedBatches:
    """z of both batches. Sums, kernels and gradients ignore excluded samples.

    ``membership_train`` and ``membership_val`` are groups as in ``adiw.matching.groups``: integers, or booleans for a
    single group, or both None where all samples are included.
    The z of an excluded sample is a finite number. In a single group of scalars it is as far from the included ones
    as the dtype allows, so that a kernel between them is zero without a mask.
    """

    z_train: Tensor  # (n, d)
    z_val: Tensor  # (m, d)
    membership_train: Tensor | None  # (n,)
    membership_val: Tensor | None  # (m,)
    num_groups: int = 1
    memory: Mapping[str, Tensor] = field(default_factory=dict)  # of divergences that learn (a critic network)
    kept: Kept | None = None  # that of ``z_val``, shared by the batches with the same one; None: not known

    @cached_tensor_property
    def included_train(self) -> Tensor:
        """(n,) booleans: the training samples that are included."""
        return _included(self.z_train, self.membership_train)

    @cached_tensor_property
    def included_val(self) -> Tensor:
        """(m,) booleans: the validation samples that are included."""
        return _included(self.z_val, self.membership_val)

    @cached_tensor_property
    def group_train(self) -> Tensor:
        """(n,) int64: the group of each training sample, -1 for excluded ones."""
        return group_numbers(self.included_train if self.membership_train is None else self.membership_train)

    @cached_tensor_property
    def group_val(self) -> Tensor:
        """(m,) int64: the group of each validation sample, -1 for excluded ones."""
        return group_numbers(self.included_val if self.membership_val is None else self.membership_val)

    @cached_tensor_property
    def num_train(self) -> Tensor:
        """Number of training samples in each group, (num_groups,); one for an empty group, to divide by."""
        return self._count(self.z_train, self.membership_train)

    @cached_tensor_property
    def num_val(self) -> Tensor:
        """Number of validation samples in each group, (num_groups,); one for an empty group, to divide by."""
        return self._count(self.z_val, self.membership_val)

    @cached_tensor_property
    def share_val(self) -> Tensor:
        """(m,) one over the size of each validation sample's group, zero for excluded samples."""
        if self.kept is not None:
            return self.kept.share
        if self.membership_val is None:
            return self.z_val.new_full((len(self.z_val),), 1 / len(self.z_val))
        return self.included_val / per_sample(self.num_val, self.membership_val)

    def same(self, left: str, right: str) -> Tensor:
        """Which pairs of samples are compared: booleans, e.g. (n, m) for ``same("train", "val")``."""
        return same_group(self._membership(left), self._membership(right))

    def sum_train(self, values: Tensor) -> Tensor:
        """Sum of (n,) over the training samples of each group: (num_groups,)."""
        return group_sum(values, self.membership_train, self.num_groups)

    def sum_val(self, values: Tensor) -> Tensor:
        """Sum of (m,) over the validation samples of each group: (num_groups,)."""
        return group_sum(values, self.membership_val, self.num_groups)

    def _membership(self, side: str) -> Tensor:
        if self.membership_train is None or self.membership_val is None:
            return self.included_train if side == "train" else self.included_val
        return self.membership_train if side == "train" else self.membership_val

    def _count(self, z: Tensor, group: Tensor | None) -> Tensor:
        if group is None:
            return z.new_full((1,), len(z))
        if self.num_groups == 1:
            return is_included(group).sum(0, keepdim=True, dtype=self.z_train.dtype).clamp_min(1)
        return group_sum(torch.ones_like(group, dtype=self.z_train.dtype), group, self.num_groups).clamp_min(1)


def match(
    z_train: Tensor,
    z_val: Tensor,
    group_train: Tensor | None = None,
    group_val: Tensor | None = None,
    num_groups: int = 1,
    minimum: int = 1,
    kept: Kept | None = None,
    finite: bool = False,
) -> MatchedBatches:
    """Match z_train (n, d) with z_val (m, d), and exclude samples that cannot be compared.

    These are samples whose z is not finite, and all samples of a group with fewer than ``minimum`` samples on either
    side (Algorithm 2 needs two). ``kept`` is that of ``z_val``, if all of it is known to be finite; ``finite``
    promises the same of ``z_train``.

    >>> match(torch.tensor([[0.0], [float("nan")]]), torch.tensor([[1.0]])).group_train
    tensor([ 0, -1])
    """
    if group_train is None and group_val is None and minimum == 1 and z_train.shape[1] == 1:
        return _match_scalars(z_train, z_val, kept, finite)
    train, val = _exclude_nonfinite(z_train, group_train), _exclude_nonfinite(z_val, group_val)
    ones_train, ones_val = torch.ones_like(z_train[:, 0]), torch.ones_like(z_val[:, 0])
    enough = (group_sum(ones_train, train, num_groups) >= minimum) & (group_sum(ones_val, val, num_groups) >= minimum)
    train = torch.where((train >= 0) & per_sample(enough, train), train, -1)
    val = torch.where((val >= 0) & per_sample(enough, val), val, -1)
    return MatchedBatches(_fill_excluded(z_train, train), _fill_excluded(z_val, val), train, val, num_groups)


def is_finite(values: Tensor) -> Tensor:
    """``values.isfinite()`` in two kernels rather than four: each step needs it several times.

    >>> is_finite(torch.tensor([1.0, float("nan"), float("-inf")]))
    tensor([ True, False, False])
    """
    return values.abs() < torch.inf


def finite_mask(values: Tensor) -> Tensor | None:
    """Which values are finite; None if all are and the host can know it without a synchronisation.

    >>> finite_mask(torch.tensor([1.0, float("nan")])), finite_mask(torch.tensor([1.0, 2.0]))
    (tensor([ True, False]), None)
    """
    return None if known_finite(values) else is_finite(values)


def known_finite(values: Tensor) -> bool:
    """Whether all values are finite and the host can know it without a synchronisation."""
    return host_can_read(values) and math.isfinite(_read(values.sum()))


def none_if_true(flag: Tensor) -> Tensor | None:
    """The boolean tensor ``flag``; None if it is true and the host can know it without a synchronisation."""
    return None if known_true(flag) else flag


def known_true(flag: Tensor) -> bool:
    """Whether the boolean tensor ``flag`` is true and the host can know it without a synchronisation."""
    return known_above(flag, 0)


def known_above(value: Tensor, least: float) -> bool:
    """Whether the number in ``value`` is above ``least`` and the host can know it without a synchronisation."""
    return host_can_read(value) and _read(value) > least


def host_can_read(values: Tensor) -> bool:
    """Whether Python can read this tensor without waiting for a device or breaking a compiled graph."""
    return values.is_cpu and not torch.compiler.is_compiling()


def _read(value: Tensor) -> float:
    """The number in a scalar on the CPU; nan within ``torch.vmap``, where a scalar has no single value."""
    try:
        return float(value.item())
    except RuntimeError:
        return math.nan


def _match_scalars(z_train: Tensor, z_val: Tensor, kept: Kept | None, finite: bool) -> MatchedBatches:
    """One group of scalars. Excluded z become the largest float for training, its negative for validation."""
    if (finite or known_finite(z_train)) and (kept is not None or known_finite(z_val)):
        kept = Kept(z_val.clone()) if kept is None else kept
        return MatchedBatches(z_train.clone(), kept.z, None, None, kept=kept)  # copies, as nan_to_num makes them
    train, val = is_finite(z_train), is_finite(z_val)
    train, val = train & val.any(), val & train.any()
    largest = torch.finfo(z_train.dtype).max
    z_train = z_train.nan_to_num(largest, largest, largest)
    z_val = z_val.nan_to_num(-largest, -largest, -largest)
    return MatchedBatches(z_train, z_val, train[:, 0], val[:, 0])


def _exclude_nonfinite(z: Tensor, group: Tensor | None) -> Tensor:
    """The group of each sample (n,), -1 where z is not finite."""
    finite = z.isfinite().all(1)
    return torch.where(finite, torch.zeros_like(finite, dtype=torch.long) if group is None else group, -1)


def _fill_excluded(z: Tensor, group: Tensor) -> Tensor:
    """z (n, d) with excluded rows replaced by the first included one (zero without one), which loses no precision."""
    included = group >= 0
    value = z.index_select(0, included.to(torch.uint8).argmax().view(1)).nan_to_num(0, 0, 0)
    return torch.where(included[:, None], z, value)


def _included(z: Tensor, membership: Tensor | None) -> Tensor:
    return torch.ones_like(z[:, 0], dtype=torch.bool) if membership is None else is_included(membership)
