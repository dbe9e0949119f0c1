"""A data set whose items include their index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch.utils.data import Dataset, IterableDataset


def is_map_style(dataset: object) -> bool:
    """Whether a data set has a length and gives items by index."""
    by_index = hasattr(dataset, "__getitem__") and not isinstance(dataset, IterableDataset)
    return by_index and hasattr(dataset, "__len__")


class Indexed(Dataset[Any]):
    """Items (x, y) of a map-style data set become (x, y, index); a mapping gets the key "index".

    >>> Indexed([("a", 0), ("b", 1)])[1]
    ('b', 1, 1)
    >>> Indexed([{"x": "a"}])[0]
    {'x': 'a', 'index': 0}
    """

    def __init__(self, dataset: Any) -> None:
        if not is_map_style(dataset):
            raise TypeError(
                f"adiw.Indexed needs a map-style data set (__len__ and __getitem__), got {type(dataset).__name__}: "
                "weights are stored by index, so samples need fixed indices (put the DataLoader around Indexed)"
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
