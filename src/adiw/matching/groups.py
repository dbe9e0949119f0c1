"""Sums over groups of samples: the classes of Algorithm 2, or a single group.

Groups are a tensor with one integer per sample, ``0 .. num_groups - 1``; -1 excludes the sample from every sum. For a
single group it may also hold booleans: whether each sample is included. None means that all samples are included and
the host knows it, so that masks are not needed.
"""

from __future__ import annotations

import torch
from torch import Tensor

FEW, FEW_ON_CPU = 1024, 256  # on a CPU the work takes the time, on a GPU the number of kernels


def are_few(values: Tensor) -> bool:
    """Whether comparing all pairs of ``values`` (n,), which takes fewer kernels, is faster than sorting."""
    return len(values) <= (FEW if values.is_cuda else FEW_ON_CPU)


def is_included(group: Tensor) -> Tensor:
    """Which samples are included, (n,) booleans.

    >>> is_included(torch.tensor([0, -1, 2]))
    tensor([ True, False,  True])
    """
    return group if group.dtype == torch.bool else group >= 0


def group_numbers(group: Tensor) -> Tensor:
    """Groups as integers, (n,): booleans become 0 and -1.

    >>> group_numbers(torch.tensor([True, False]))
    tensor([ 0, -1])
    """
    return group.long() - 1 if group.dtype == torch.bool else group


def masked(group: Tensor | None, values: Tensor) -> Tensor:
    """``values`` (n,), zero for excluded samples.

    >>> masked(torch.tensor([0, -1, 2]), torch.tensor([5.0, 6.0, 7.0]))
    tensor([5., 0., 7.])
    >>> masked(None, torch.tensor([5.0, 6.0]))
    tensor([5., 6.])
    """
    return values if group is None else torch.where(is_included(group), values, 0)


def group_sum(values: Tensor, group: Tensor | None, num_groups: int) -> Tensor:
    """Sum of ``values`` (n,) over each group: (num_groups,). Deterministic on every device.

    >>> group_sum(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0, 1, 0]), 2)
    tensor([5., 2.])
    """
    if num_groups == 1:
        return masked(group, values).sum(0, keepdim=True)
    assert group is not None  # only a single group may be None
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
    """The value of each sample's group: (num_groups,) -> (n,), or (1,) for a single group, which broadcasts.

    Excluded samples get the value of group 0.

    >>> per_sample(torch.tensor([5.0, 2.0]), torch.tensor([0, 1, 0]))
    tensor([5., 2., 5.])
    """
    if group is None or len(per_group) == 1:
        return per_group
    return per_group[group.clamp_min(0)]


def same_group(left: Tensor, right: Tensor) -> Tensor:
    """Which pairs are in the same group, (n, m) booleans; false for excluded samples.

    >>> same_group(torch.tensor([0, -1]), torch.tensor([0, 1, -1]))
    tensor([[ True, False, False],
            [False, False, False]])
    """
    if left.dtype == torch.bool:
        return left[:, None] & right
    return (left[:, None] == right) & (left[:, None] >= 0)


def group_order(values: Tensor, group: Tensor, num_groups: int) -> Tensor:
    """The order that sorts by group, and by value within a group: (n,) positions.

    >>> group_order(torch.tensor([3.0, 1.0, 2.0]), torch.tensor([0, 1, 0]), 2)
    tensor([2, 0, 1])
    """
    order = values.argsort()
    return order if num_groups == 1 else order[group[order].argsort(stable=True)]
