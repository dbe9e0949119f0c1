"""One number per sample, kept by the sample's index in its data set."""

from __future__ import annotations

from collections import Counter

import torch
from torch import Tensor, nn

from adiw.matching.groups import are_few, masked

REPEATS = (
    "draw them without replacement (shuffle=True), as weights take the place of drawing some more often, or allow it "
    "with adiw.ADIW(..., repeats=True), where one that is twice in a batch keeps the mean of its two weights"
)


class ValuesByIndex(nn.Module):
    """``size`` numbers that are read and written by index, on the device, without host synchronisation.

    One slot more than ``size`` takes what must not be kept: masked writes and bad indices.

    >>> store = ValuesByIndex(3)
    >>> store.write(torch.tensor([0, 0, 2]), torch.tensor([2.0, 4.0, 5.0]))
    >>> store.values
    tensor([3., 1., 5.])
    """

    slots: Tensor

    def __init__(self, size: int, fill: float = 1.0) -> None:
        super().__init__()
        self.fill = fill
        self.register_buffer("slots", torch.full((size + 1,), fill))

    def __len__(self) -> int:
        return len(self.slots) - 1

    @property
    def values(self) -> Tensor:
        """All numbers, (size,): a view of the store."""
        return self.slots[:-1]

    def read(self, index: Tensor) -> Tensor:
        """The numbers at ``index`` (n,)."""
        return self.slots[index]

    def write(self, index: Tensor, values: Tensor, mask: Tensor | None = None, distinct: bool = False) -> None:
        """Keep ``values`` (n,) at ``index`` (n,); an index that occurs twice takes the mean of its values.

        Where ``mask`` is false nothing is kept. ``distinct`` promises that every index is good and occurs once.
        """
        index, values = masked(mask, index, len(self)), values.to(self.slots.dtype)
        self.slots.index_copy_(0, index, values if distinct else mean_of_duplicates(index, values))
        if mask is not None or not distinct:
            self.slots[-1:].fill_(self.fill)  # an assignment would copy the number from the host


def mean_of_duplicates(index: Tensor, values: Tensor) -> Tensor:
    """Give equal indices the mean of their values, (n,). Deterministic on every device.

    Every pair is looked at, which takes the fewest kernels; a large batch is sorted instead.

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


def check_index(index: Tensor, count: int, size: int) -> tuple[Tensor, Tensor | None]:
    """(index with bad entries sent to the spare slot ``size``, how many were bad).

    On the CPU a bad index is an error at once and the count is None; on a GPU looking would stall the step, so
    they are counted there and whoever reads the counter raises.
    """
    if not isinstance(index, Tensor) or index.is_floating_point() or index.dtype == torch.bool:
        kind = index.dtype if isinstance(index, Tensor) else type(index).__name__
        raise TypeError(
            f"index must be a tensor of integers, got {kind}: wrap the training set in adiw.Indexed, which makes it "
            "the last part of every batch"
        )
    if index.shape != (count,):
        raise ValueError(f"index has shape {tuple(index.shape)}, but there are {count} losses")
    index = index.long()  # first: a comparison in fewer bits would wrap ``size`` round
    if index.is_cuda:
        bad = index.clamp(0, size - 1) != index
        return torch.where(bad, size, index), bad.sum()
    numbers = index.tolist()  # on the host a few hundred numbers are read faster than a tensor is asked
    bad_one = next((number for number in numbers if not 0 <= number < size), None)
    if bad_one is not None:
        raise IndexError(
            f"index {bad_one} is not in the training set: num_train is {size}, which must be the length "
            "of the set in adiw.Indexed and stay so while training"
        )
    return index, None


def check_distinct(index: Tensor) -> None:
    """Refuse an index (n,) on the CPU that names a sample twice; on a GPU looking would stall the step.

    >>> check_distinct(torch.tensor([3, 5, 3]))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: sample 3 is twice in a batch, so the sampler repeats samples: draw them without replacement ...
    """
    if index.is_cuda:
        return
    numbers = index.tolist()
    if len(set(numbers)) < len(numbers):
        twice = min(number for number, times in Counter(numbers).items() if times > 1)
        raise ValueError(f"sample {twice} is twice in a batch, so the sampler repeats samples: {REPEATS}")
