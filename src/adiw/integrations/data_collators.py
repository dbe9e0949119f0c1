"""Data collators for Hugging Face: with the index, over a whole data set, and for sequences packed into rows."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from adiw.integrations.token_losses import IGNORED

DataCollator = Callable[[list[Any]], Any]


class CollateWithIndex:
    """Calls a data collator without the column "index", and adds that column to its batch as (n,) int64.

    Items may be lists of samples, see ``PackedRows``. Those of a stream are not ``indexed``: their index is 0.

    >>> CollateWithIndex(lambda samples: {"x": torch.tensor([s["x"] for s in samples])})([{"x": 1.0, "index": 7}])
    {'x': tensor([1.]), 'index': tensor([7])}
    """

    def __init__(self, collator: DataCollator, indexed: bool = True) -> None:
        self.collator, self.indexed = collator, indexed

    def __call__(self, samples: list[Any]) -> Any:
        if isinstance(samples[0], list):
            samples = [sample for row in samples for sample in row]
        if not isinstance(samples[0], Mapping):
            raise TypeError(f"training samples must be mappings of columns, got {type(samples[0]).__name__}")
        index = torch.tensor([sample["index"] if self.indexed else 0 for sample in samples])
        batch = self.collator([{key: sample[key] for key in sample if key != "index"} for sample in samples])
        _check_rows(batch, len(index))
        batch["index"] = index
        return batch


def _check_rows(batch: Any, count: int) -> None:
    """Raise if the collator joined the sequences in one row without the start of each."""
    ids = batch.get("input_ids")
    if not isinstance(ids, Tensor) or len(ids) == count:
        return
    if "position_ids" not in batch or len(ids) != 1:
        raise ValueError(
            f"the data collator made {len(ids)} rows of {count} samples, without position_ids that give the start of "
            "each: use a collator with one row for each sample, or one that returns position_ids"
        )
    position = batch["position_ids"][0]
    starts = (position == position[:1]).nonzero().flatten()
    filled = batch["labels"][0, starts[count] :] if len(starts) > count else position[:0]
    if len(starts) < count or bool((filled != IGNORED).any()):
        raise ValueError(
            f"{count} samples became {len(starts)} sequences: leave out empty samples, and samples that are "
            "packed rows already, because a weight belongs to one sequence"
        )


class Collated(Dataset[dict[str, Tensor]]):
    """A data set that passes through a data collator once, padded to one length; items are single samples.

    >>> from transformers import default_data_collator
    >>> Collated([{"x": [1, 2], "label": 0}, {"x": [3, 4], "label": 1}], default_data_collator)[1]
    {'labels': tensor(1), 'x': tensor([3, 4])}
    """

    def __init__(self, dataset: Any, collator: DataCollator) -> None:
        self.columns = _collate(dataset, collator)
        for name, column in self.columns.items():
            if not isinstance(column, Tensor) or len(column) != len(dataset):
                what = f"shape {tuple(column.shape)}" if isinstance(column, Tensor) else type(column).__name__
                raise TypeError(
                    f"trusted set: expected {len(dataset)} rows in {name!r} of the collated samples, got {what}: "
                    "use a data collator that returns tensors with one row per sample"
                )

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {name: column[index] for name, column in self.columns.items()}


def _collate(dataset: Any, collator: DataCollator) -> dict[str, Any]:
    """All samples in one batch, by column; errors name the data set or the collator as their cause."""
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__") or len(dataset) == 0:
        what = "an empty one" if hasattr(dataset, "__len__") else type(dataset).__name__
        raise TypeError(f"trusted set: expected a data set with __len__ and __getitem__, got {what}")
    if not callable(collator):
        raise TypeError(f"trusted set: expected a data collator, got {type(collator).__name__}")
    try:
        batch = apart(collator)([dataset[i] for i in range(len(dataset))])
    except Exception as error:
        raise TypeError(
            f"trusted set: the data collator fails on its samples ({type(error).__name__}: {error}): pass samples "
            "like those of the training set, mappings of columns"
        ) from error
    if not isinstance(batch, Mapping) or not batch:
        raise TypeError(f"trusted set: expected a mapping of columns from the data collator, got {batch!r:.50}")
    return dict(batch)


def apart(collator: DataCollator) -> DataCollator:
    """The data collator, but with a padded row for each sample where it joins them in one row."""

    def collate(samples: list[Any]) -> Any:
        batch = collator(samples)
        return _pad([collator([sample]) for sample in samples]) if _is_joined(batch, len(samples)) else batch

    return collate


def _is_joined(batch: Any, count: int) -> bool:
    """Whether a data collator without padding joined several sequences in one row."""
    return isinstance(batch, Mapping) and "position_ids" in batch and len(batch["input_ids"]) == 1 < count


def _pad(rows: list[Any]) -> dict[str, Tensor]:
    """One batch with padding from single sequences (1, tokens)."""
    lengths = torch.tensor([row["input_ids"].shape[1] for row in rows])
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    ids, labels = (
        pad_sequence([row[name][0] for row in rows], batch_first=True, padding_value=value)
        for name, value in (("input_ids", 0), ("labels", IGNORED))
    )
    return {"input_ids": ids, "labels": labels, "attention_mask": mask.long()}


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
