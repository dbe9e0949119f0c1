"""Items with their index, also through a DataLoader."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset

from adiw import Indexed


def test_a_shuffled_loader_gives_each_sample_its_own_index() -> None:
    x = torch.arange(10.0)
    dataset = Indexed(TensorDataset(x, (10 * x).long()))
    assert len(dataset) == 10
    seen = []
    for xs, ys, index in DataLoader(dataset, batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(3)):
        assert index.dtype == torch.int64
        assert xs.tolist() == index.tolist()
        assert ys.tolist() == (10 * index).tolist()
        seen += index.tolist()
    assert sorted(seen) == list(range(10))
    assert seen != list(range(10))


def test_the_index_is_that_of_the_wrapped_set() -> None:
    subset = Subset(TensorDataset(torch.arange(10.0), torch.arange(10)), [7, 2])
    assert [item[2] for item in (Indexed(subset)[0], Indexed(subset)[1])] == [0, 1]
    assert Indexed(subset)[0][1] == 7


def test_mappings_get_a_key_and_keep_the_others() -> None:
    items = [{"x": torch.tensor([1.0]), "y": 0}, {"x": torch.tensor([2.0]), "y": 1}]
    batch = next(iter(DataLoader(Indexed(items), batch_size=2)))
    assert batch["index"].tolist() == [0, 1]
    assert batch["x"].tolist() == [[1.0], [2.0]]
    assert set(items[0]) == {"x", "y"}  # the user's own items do not change


def test_longer_tuples_get_the_index_last() -> None:
    assert Indexed([("a", 0, "group")])[0] == ("a", 0, "group", 0)


class _Stream(IterableDataset[int]):
    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(range(3))


def test_a_set_that_is_not_map_style_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"map-style data set .*, got _Stream.*put the DataLoader around Indexed"):
        Indexed(_Stream())
    with pytest.raises(TypeError, match="got DataLoader"):
        Indexed(DataLoader(TensorDataset(torch.zeros(2))))


def test_items_without_room_for_an_index_are_an_error() -> None:
    with pytest.raises(TypeError, match=r"tuples such as \(x, y\) or mappings, got Tensor"):
        Indexed(torch.zeros(3, 2))[0]
    with pytest.raises(KeyError, match="already have a key"):
        Indexed([{"index": 3}])[0]
