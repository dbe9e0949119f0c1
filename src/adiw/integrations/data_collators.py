"""Data collators for Hugging Face: one that keeps the index, and a data set that is collated once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

DataCollator = Callable[[list[Any]], Any]


class CollateWithIndex:
    """Calls a data collator without the column "index", and adds that column to its batch as (n,) int64.

    >>> CollateWithIndex(lambda samples: {"x": torch.tensor([s["x"] for s in samples])})([{"x": 1.0, "index": 7}])
    {'x': tensor([1.]), 'index': tensor([7])}
    """

    def __init__(self, collator: DataCollator) -> None:
        self.collator = collator

    def __call__(self, samples: list[dict[str, Any]]) -> Any:
        if not isinstance(samples[0], Mapping):
            raise TypeError(f"training samples must be mappings of columns, got {type(samples[0]).__name__}")
        index = torch.tensor([sample["index"] for sample in samples])
        batch = self.collator([{key: sample[key] for key in sample if key != "index"} for sample in samples])
        batch["index"] = index
        return batch


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
        batch = collator([dataset[i] for i in range(len(dataset))])
    except Exception as error:
        raise TypeError(
            f"trusted set: the data collator fails on its samples ({type(error).__name__}: {error}): pass samples "
            "like those of the training set, mappings of columns"
        ) from error
    if not isinstance(batch, Mapping) or not batch:
        raise TypeError(f"trusted set: expected a mapping of columns from the data collator, got {batch!r:.50}")
    return dict(batch)
