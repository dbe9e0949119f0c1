"""Values stored by the sample's index in the training set: check the index of a batch, write its values."""

from __future__ import annotations

from collections import Counter

import torch
from torch import Tensor

from adiw.argument_checks import kind_of
from adiw.matching.groups import are_few

REPEATS = (
    "draw them without replacement (shuffle=True), since weights make oversampling unnecessary, or allow it "
    "with adiw.ADIW(..., repeats=True), which stores the mean of a repeated sample's weights"
)


PADDING = torch.iinfo(torch.int64).min  # the index of a row that only fills a process's part of the batch


def check_index(index: Tensor, count: int, size: int, repeats: bool = True) -> tuple[Tensor, bool]:
    """(index (n,) as int64, whether all entries are known to be in the training set).

    On the CPU a bad index raises, and so does a repeated one if ``repeats`` is false. On a GPU reading the index
    would stall the step: see ``mask_bad``.

    >>> check_index(torch.tensor([3, 5, 3]), 3, 10, repeats=False)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: sample 3 is twice in a batch, so the sampler repeats samples: draw them without replacement ...
    """
    if not isinstance(index, Tensor) or index.is_floating_point() or index.dtype == torch.bool:
        raise TypeError(
            f"index must be a tensor of integers, got {kind_of(index)}: wrap the training set in adiw.Indexed, which "
            "makes it the last part of every batch"
        )
    if index.shape != (count,):
        several = index.ndim == 1 and len(index) and count % len(index) == 0 and count > len(index)
        hint = f": return {count // len(index)} losses for each sample as ({len(index)}, ...)" if several else ""
        raise ValueError(f"index has shape {tuple(index.shape)}, but there are {count} losses{hint}")
    index = index.long()  # before any comparison: ``size`` may overflow a smaller dtype
    if index.is_cuda:
        return index, False
    numbers = index.tolist()  # a few hundred numbers are compared faster as integers than as a tensor
    if numbers and not (min(numbers) >= 0 and max(numbers) < size):
        bad_number = next(number for number in numbers if not 0 <= number < size)
        raise IndexError(
            f"index {bad_number} is not in the training set: num_train is {size}, which must be the length "
            "of the set in adiw.Indexed and not change while training"
        )
    if not repeats and len(set(numbers)) < len(numbers):
        twice = min(number for number, times in Counter(numbers).items() if times > 1)
        raise ValueError(f"sample {twice} is twice in a batch, so the sampler repeats samples: {REPEATS}")
    return index, True


def mask_bad(index: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """(index (n,) with entries outside of 0 .. size - 1 replaced by ``size``, how many of them do not pad).

    >>> mask_bad(torch.tensor([3, 12, -1, PADDING]), 10)
    (tensor([ 3, 10, 10, 10]), tensor(2))
    """
    bad = index.clamp(0, size - 1) != index
    return torch.where(bad, size, index), (bad & (index != PADDING)).sum()


def write_by_index(
    slots: Tensor, index: Tensor, values: Tensor, mask: Tensor | None = None, distinct: bool = False
) -> None:
    """slots[index] = values (n,) where ``mask`` (n,) is true; an index that occurs twice gets the mean of its values.

    Masked values are written to the last slot, which is then reset to one. ``distinct`` promises that every index is
    valid and occurs once.

    >>> slots = torch.ones(4)
    >>> write_by_index(slots, torch.tensor([0, 0, 2]), torch.tensor([2.0, 4.0, 5.0]))
    >>> slots
    tensor([3., 1., 5., 1.])
    """
    index = index if mask is None else torch.where(mask, index, len(slots) - 1)
    values = values.to(slots.dtype)
    slots.index_copy_(0, index, values if distinct else mean_of_duplicates(index, values))
    if mask is not None or not distinct:
        slots[-1:].fill_(1)  # an assignment would copy the value from the host


def mean_of_duplicates(index: Tensor, values: Tensor) -> Tensor:
    """Give equal indices the mean of their values, (n,). Deterministic on every device.

    A small batch compares all pairs, which takes the fewest kernels; a large one is sorted.

    >>> mean_of_duplicates(torch.tensor([7, 3, 7]), torch.tensor([1.0, 5.0, 2.0]))
    tensor([1.5000, 5.0000, 1.5000])
    """
    if are_few(index):
        equal = index[:, None] == index
        return torch.where(equal, values, 0).sum(1) / equal.sum(1)
    ordered, order = index.sort(stable=True)
    first, last = (torch.searchsorted(ordered, ordered, right=right) for right in (False, True))
    running = torch.cat([values.new_zeros(1, dtype=torch.float64), values[order].double().cumsum(0)])
    mean = torch.where(last - first > 1, (running[last] - running[first]) / (last - first), values[order])
    return torch.empty_like(values).scatter_(0, order, mean.to(values.dtype))
