"""A data set whose items include their index, with the trusted samples among them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, Subset

from adiw.argument_checks import kind_of


def is_map_style(dataset: object) -> bool:
    """Whether a data set has a length and gives items by index."""
    by_index = hasattr(dataset, "__getitem__") and not isinstance(dataset, IterableDataset)
    return by_index and hasattr(dataset, "__len__")


class TrustedSamples(Dataset[Any]):
    """The trusted samples of an ``Indexed`` training set, and ``index`` (m,), their positions in it.

    ``train_set`` is that training set, in the process that made it: copies, such as those of workers, are without it.
    """

    def __init__(self, dataset: Any, index: Tensor) -> None:
        self.dataset, self.index = dataset, index
        self.train_set: Indexed | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "train_set": None}

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, number: int) -> Any:
        return self.dataset[number]


class Indexed(Dataset[Any]):
    """Items (x, y) of a map-style data set become (x, y, index); a mapping gets the key "index".

    Args:
        dataset: the training samples.
        trusted: samples whose labels are right, which then are trained on as well: a data set of the same kind of
            items, or the positions of such samples in ``dataset``, integers (m,). They are added
            behind the others. One that is already in ``dataset`` (a ``Subset`` of the same data, or a position)
            takes its place instead. ``Indexed(...).trusted`` is what ``adiw.ADIW`` takes.

    >>> Indexed([("a", 0), ("b", 1)])[1]
    ('b', 1, 1)
    >>> Indexed([{"x": "a"}])[0]
    {'x': 'a', 'index': 0}
    >>> train_set = Indexed([("a", 0), ("b", 1)], trusted=[("c", 1)])
    >>> len(train_set), train_set[2], train_set.trusted.index
    (3, ('c', 1, 2), tensor([2]))
    """

    def __init__(self, dataset: Any, trusted: Any = None) -> None:
        if not is_map_style(dataset):
            raise TypeError(
                f"adiw.Indexed needs a map-style data set (__len__ and __getitem__), got {type(dataset).__name__}: "
                "weights are stored by index, so samples need fixed indices (put the DataLoader around Indexed)"
            )
        self.dataset = dataset
        self.joined = None if trusted is None else _join(dataset, trusted)
        if self.joined is not None:
            self.joined.train_set = self
        # Position in the training set -> number of the trusted sample there.
        self._number = {} if self.joined is None else {p: j for j, p in enumerate(self.joined.index.tolist())}

    @property
    def trusted(self) -> TrustedSamples:
        """The trusted samples, with their positions in this data set."""
        if self.joined is None:
            raise ValueError("there are no trusted samples: adiw.Indexed(train_set, trusted) joins them")
        return self.joined

    def __len__(self) -> int:
        return max(len(self.dataset), 1 + max(self._number, default=-1))

    def __getitem__(self, index: int) -> Any:
        number = self._number.get(int(index)) if self._number else None  # some samplers give tensors
        item = self.dataset[index] if number is None else self.trusted[number]
        if isinstance(item, Mapping):
            if "index" in item:
                raise KeyError('items already have a key "index": rename it, adiw.Indexed adds one')
            return {**item, "index": index}
        if isinstance(item, (tuple, list)):
            return (*item, index)
        raise TypeError(f"adiw.Indexed: items must be tuples such as (x, y) or mappings, got {type(item).__name__}")


def find_indexed(dataset: Any) -> Indexed | None:
    """The ``Indexed`` in a data set, also inside ``Subset`` and similar wrappers; None if there is none."""
    while dataset is not None and not isinstance(dataset, Indexed):
        dataset = getattr(dataset, "dataset", None)
    return dataset


def split_index(batch: Any) -> tuple[Tensor, Any]:
    """(index, the rest) of a batch of an ``Indexed`` data set: the key "index", or the last part.

    >>> split_index((torch.zeros(2, 3), torch.zeros(2), torch.tensor([5, 7])))[0]
    tensor([5, 7])
    """
    index, rest = None, batch
    if isinstance(batch, Mapping):
        index, rest = batch.get("index"), {key: value for key, value in batch.items() if key != "index"}
    elif isinstance(batch, (tuple, list)) and len(batch) > 2:
        index, rest = batch[-1], tuple(batch[:-1])
    if not isinstance(index, Tensor) or index.is_floating_point():
        raise TypeError("batches have no index: pass adiw.Indexed(train_set), or a DataLoader of it")
    return index, rest


def _join(dataset: Any, trusted: Any) -> TrustedSamples:
    """The trusted samples with their positions: those in the data set already, then len(dataset), ..."""
    positions = _as_positions(trusted, len(dataset))
    if positions is not None:
        return TrustedSamples(Subset(dataset, positions), torch.tensor(positions))
    if not is_map_style(trusted) or len(trusted) == 0:
        raise TypeError(
            "trusted must be a map-style data set with at least one sample, or the positions of trusted samples in "
            f"the training set (integers), got {type(trusted).__name__}"
        )
    base, sources = _source(dataset)
    trusted_base, trusted_sources = _source(trusted)
    position_of = {source: position for position, source in enumerate(sources)} if base is trusted_base else {}
    index, end = [], len(dataset)
    for source in trusted_sources:
        index.append(position_of.get(source, end))
        end += source not in position_of
    if len(set(index)) < len(index):
        raise ValueError("trusted has a sample twice: pass each trusted sample once")
    return TrustedSamples(trusted, torch.tensor(index))


def _as_positions(trusted: Any, size: int) -> list[int] | None:
    """Positions in the training set, or None if ``trusted`` is a data set."""
    numbers = isinstance(trusted, (list, tuple, range)) and trusted and all(isinstance(p, int) for p in trusted)
    if not (isinstance(trusted, (Tensor, np.ndarray)) or numbers):
        return None
    index = torch.as_tensor(trusted)
    if index.ndim != 1 or index.is_floating_point() or index.dtype == torch.bool or len(index) == 0:
        raise TypeError(
            "positions of trusted samples must be integers, (m,), at least one, got "
            f"{kind_of(index)} with shape {tuple(index.shape)}; from a mask: mask.nonzero().flatten()"
        )
    positions: list[int] = index.tolist()
    if not (min(positions) >= 0 and max(positions) < size) or len(set(positions)) < len(positions):
        raise ValueError(f"positions of trusted samples must be different numbers from 0 to {size - 1}")
    return positions


def _source(dataset: Any) -> tuple[Any, list[int] | range]:
    """The data set that a ``Subset`` takes its samples from, and their positions there."""
    if isinstance(dataset, Subset):
        base, sources = _source(dataset.dataset)
        return base, [sources[i] for i in dataset.indices]
    return dataset, range(len(dataset))
