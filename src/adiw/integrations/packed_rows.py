"""Whole sequences packed into rows: each item is a list of samples, which a data collator without padding joins."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import Any

from torch.utils.data import Dataset


class PackedRows(Dataset[list[Any]]):
    """The samples of a data set in rows with at most ``size`` tokens ("input_ids") each.

    >>> data = [{"input_ids": [0] * length} for length in (2, 3, 1)]
    >>> [len(row) for row in PackedRows(data, size=4)]
    [2, 1]
    """

    def __init__(self, dataset: Any, size: int) -> None:
        self.dataset = dataset
        self.rows = pack([len(dataset[i]["input_ids"]) for i in range(len(dataset))], size)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> list[Any]:
        return [self.dataset[i] for i in self.rows[row]]

    def largest_batch(self, rows: int) -> int:
        """The largest number of samples in so many rows."""
        return sum(sorted(map(len, self.rows), reverse=True)[:rows])


def pack(lengths: Sequence[int], size: int) -> list[list[int]]:
    """Rows of numbers of samples, each of at most ``size`` tokens: best fit, the longest samples first.

    >>> pack([2, 3, 1, 4], 5)
    [[3, 2], [1, 0]]
    """
    rows: list[list[int]] = []
    rows_by_space: dict[int, list[int]] = {}  # tokens that are free -> rows with as many
    spaces: list[int] = []  # the keys, in order
    for number in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        at = bisect_left(spaces, lengths[number])
        if at < len(spaces):
            space = spaces[at]
            row = rows_by_space[space].pop()
            if not rows_by_space[space]:
                del rows_by_space[space], spaces[at]
        else:
            space, row = size, len(rows)
            rows.append([])
        rows[row].append(number)
        left = space - lengths[number]
        if left not in rows_by_space:
            insort(spaces, left)
        rows_by_space.setdefault(left, []).append(row)
    return rows
