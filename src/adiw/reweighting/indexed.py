"""A data set whose items include their index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch.utils.data import Dataset, IterableDataset


class Indexed(Dataset[Any]):
    """Items (x, y) of a map-style data set become (x, y, index); a mapping gets the key "index".

    >>> Indexed([("a", 0), ("b", 1)])[1]
    ('b', 1, 1)
    >>> Indexed([{"x": "a"}])[0]
    {'x': 'a', 'index': 0}
    """

    def __init__(self, dataset: Any) -> None:
        by_number = hasattr(dataset, "__getitem__") and not isinstance(dataset, IterableDataset)
        if not by_number or not hasattr(dataset, "__len__"):
            raise TypeError(
                f"adiw.Indexed needs a data set with a length and items by number, got {type(dataset).__name__}: "
                "weights are stored per sample, so samples need fixed numbers (put the DataLoader around Indexed)"
            )
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        item = self.dataset[index]
        if isinstance(item, Mapping):
            if "index" in item:
                raise KeyError('items already have a key "index": rename it, adiw.Indexed adds one')
            return {**item, "index": index}
        if isinstance(item, (tuple, list)):
            return (*item, index)
        raise TypeError(f"adiw.Indexed: items must be tuples such as (x, y) or mappings, got {type(item).__name__}")
