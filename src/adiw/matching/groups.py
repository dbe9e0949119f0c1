"""Sums over groups of samples (the classes of Algorithm 2; a single group everywhere else).

A group is an integer per sample, ``0 .. num_groups - 1``; ``-1`` leaves a sample out of every sum. Where there is a
single group, a boolean per sample does: who takes part. None stands for all of them, where the host knows that it is
all: on a CPU an operation that is left out is time that is saved.
"""

from __future__ import annotations

import torch
from torch import Tensor

FEW, FEW_ON_CPU = 1024, 256  # a CPU feels the work, a GPU the number of kernels


def are_few(values: Tensor) -> bool:
    """Whether all pairs of ``values`` (n,) may be compared at once, which takes fewer kernels than sorting them."""
    return len(values) <= (FEW if values.is_cuda else FEW_ON_CPU)


def taking_part(group: Tensor) -> Tensor:
    """Which samples are not left out: (n,) of booleans.

    >>> taking_part(torch.tensor([0, -1, 2]))
    tensor([ True, False,  True])
    """
    return group if group.dtype == torch.bool else group >= 0


def masked(group: Tensor | None, values: Tensor, other: float | Tensor = 0) -> Tensor:
    """``values`` (n,), with ``other`` in place of those of samples that are left out.

    >>> masked(torch.tensor([0, -1, 2]), torch.tensor([5.0, 6.0, 7.0]))
    tensor([5., 0., 7.])
    >>> masked(None, torch.tensor([5.0, 6.0]))
    tensor([5., 6.])
    """
    return values if group is None else torch.where(taking_part(group), values, other)


def in_both(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    """Who takes part in both: booleans that broadcast, or None for all.

    >>> in_both(torch.tensor([True, False]), torch.tensor(True)), in_both(None, None)
    (tensor([ True, False]), None)
    """
    if one is None or other is None:
        return other if one is None else one
    return one & other


def group_sum(values: Tensor, group: Tensor | None, num_groups: int) -> Tensor:
    """Sum of ``values`` (n,) over each group: (num_groups,). Deterministic on every device.

    >>> group_sum(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0, 1, 0]), 2)
    tensor([5., 2.])
    """
    if num_groups == 1:
        return masked(group, values).sum(0, keepdim=True)
    assert group is not None  # several groups are told apart by number
    member = group[:, None] == torch.arange(num_groups, device=group.device)
    return torch.where(member, values[:, None], 0).sum(0)


def group_max(values: Tensor, group: Tensor, num_groups: int) -> Tensor:
    """Largest of the non-negative ``values`` (n,) in each group, zero for an empty one: (num_groups,).

    >>> group_max(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0, 1, 0]), 2)
    tensor([4., 2.])
    """
    member = group[:, None] == torch.arange(num_groups, device=group.device)
    return torch.where(member, values[:, None], 0).amax(0)


def per_sample(per_group: Tensor, group: Tensor | None) -> Tensor:
    """Give every sample the value of its group: (num_groups,) -> (n,), or (1,) for a single group, as it broadcasts.

    Samples that are left out get the value of group 0: mask them where it matters.

    >>> per_sample(torch.tensor([5.0, 2.0]), torch.tensor([0, 1, 0]))
    tensor([5., 2., 5.])
    """
    if group is None or len(per_group) == 1:
        return per_group
    return per_group[group.clamp_min(0)]


def same_group(left: Tensor, right: Tensor) -> Tensor:
    """Which pairs share a group, (n, m) of booleans; samples that are left out share none.

    >>> same_group(torch.tensor([0, -1]), torch.tensor([0, 1, -1]))
    tensor([[ True, False, False],
            [False, False, False]])
    """
    if left.dtype == torch.bool:
        return left[:, None] & right
    return (left[:, None] == right) & (left[:, None] >= 0)


def group_order(values: Tensor, group: Tensor, num_groups: int) -> Tensor:
    """The order that sorts by group first and by value within a group: (n,) of positions.

    >>> group_order(torch.tensor([3.0, 1.0, 2.0]), torch.tensor([0, 1, 0]), 2)
    tensor([2, 0, 1])
    """
    order = values.argsort()
    return order if num_groups == 1 else order[group[order].argsort(stable=True)]
