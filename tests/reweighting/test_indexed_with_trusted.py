"""Items with their index, also through a DataLoader."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
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


def numbers(*values: int) -> TensorDataset:
    """Samples (value, 10 * value)."""
    x = torch.tensor(values)
    return TensorDataset(x.double(), 10 * x)


def contents(dataset: Any) -> list[tuple[float, ...]]:
    return [tuple(float(part) for part in dataset[i]) for i in range(len(dataset))]


def test_trusted_samples_are_added_behind_the_others() -> None:
    train_set = Indexed(numbers(0, 1, 2), numbers(7, 8))
    assert contents(train_set) == [(0, 0, 0), (1, 10, 1), (2, 20, 2), (7, 70, 3), (8, 80, 4)]
    assert train_set.trusted.index.tolist() == [3, 4]
    assert contents(train_set.trusted) == [(7, 70), (8, 80)]


@pytest.mark.parametrize(
    "positions",
    [torch.tensor([2, 0]), np.array([2, 0]), [2, 0], (2, 0), range(2, -1, -2)],
    ids=lambda p: type(p).__name__,
)
def test_positions_of_trusted_samples(positions: Any) -> None:
    train_set = Indexed(numbers(4, 5, 6), positions)
    assert contents(train_set) == [(4, 40, 0), (5, 50, 1), (6, 60, 2)]
    assert train_set.trusted.index.tolist() == [2, 0]
    assert contents(train_set.trusted) == [(6, 60), (4, 40)]


def test_a_trusted_sample_of_the_same_data_takes_its_place() -> None:
    base = numbers(*range(10))
    train_set = Indexed(Subset(base, [9, 3, 5]), Subset(base, [5, 1, 9]))
    assert contents(train_set) == [(9, 90, 0), (3, 30, 1), (5, 50, 2), (1, 10, 3)]
    assert train_set.trusted.index.tolist() == [2, 3, 0]
    assert contents(train_set.trusted) == [(5, 50), (1, 10), (9, 90)]
    assert Indexed(base, Subset(base, [4])).trusted.index.tolist() == [4]
    assert Indexed(Subset(base, [4]), base).trusted.index.tolist() == [1, 2, 3, 4, 0, 5, 6, 7, 8, 9]


def test_a_subset_of_a_subset_is_of_the_same_data() -> None:
    base = numbers(*range(10))
    evens = Subset(base, [0, 2, 4, 6, 8])
    train_set = Indexed(Subset(evens, [4, 0, 1]), Subset(base, [2, 3]))
    assert train_set.trusted.index.tolist() == [2, 3]
    assert [item[0] for item in contents(train_set)] == [8, 0, 2, 3]


def test_equal_data_in_another_set_is_not_the_same_data() -> None:
    assert Indexed(numbers(1, 2), Subset(numbers(1, 2), [0])).trusted.index.tolist() == [2]


def test_trusted_mappings() -> None:
    train_set = Indexed([{"x": 1}, {"x": 2}], [{"x": 3}])
    assert [train_set[i] for i in range(3)] == [{"x": 1, "index": 0}, {"x": 2, "index": 1}, {"x": 3, "index": 2}]
    assert train_set.trusted[0] == {"x": 3}


@pytest.mark.parametrize("workers", [0, 2])
def test_trusted_samples_through_a_loader(workers: int) -> None:
    base = numbers(*range(20))
    train_set = Indexed(Subset(base, range(15)), Subset(base, range(12, 18)))
    loader = DataLoader(train_set, batch_size=4, shuffle=True, num_workers=workers)
    seen = {int(i): float(x) for xs, _, index in loader for x, i in zip(xs, index, strict=True)}
    assert seen == {i: float(i) for i in range(18)}


def test_a_sampler_may_give_tensors() -> None:
    train_set = Indexed(numbers(0, 1, 2), numbers(7))
    order: Any = torch.tensor([3, 1])
    x, _, index = next(iter(DataLoader(train_set, batch_size=2, sampler=order)))
    assert (x.tolist(), index.tolist()) == ([7, 1], [3, 1])


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda dataset: pickle.loads(pickle.dumps(dataset))])
def test_copies_and_pickles(duplicate: Any) -> None:
    base = numbers(*range(5))
    train_set = Indexed(Subset(base, [1, 2]), Subset(base, [2, 4]))
    copied = duplicate(train_set)
    assert contents(copied) == contents(train_set)
    assert copied.trusted.index.tolist() == [1, 2]
    assert contents(copied.trusted) == contents(train_set.trusted)


def test_without_trusted_samples() -> None:
    with pytest.raises(ValueError, match=r"no trusted samples: adiw.Indexed\(train_set, trusted\) joins them"):
        _ = Indexed(numbers(1)).trusted


@pytest.mark.parametrize(
    "trusted", [_Stream(), [], numbers(), DataLoader(numbers(1)), 3], ids=lambda t: type(t).__name__
)
def test_trusted_samples_that_are_not_a_data_set(trusted: Any) -> None:
    with pytest.raises(
        TypeError, match=rf"map-style data set with at least one sample.*got {type(trusted).__name__}"
    ):
        Indexed(numbers(1, 2), trusted)


@pytest.mark.parametrize(
    ("positions", "got"),
    [
        (torch.tensor([True, False, True]), "torch.bool"),
        (torch.tensor([0.0, 1.0]), "torch.float32"),
        (torch.tensor([[0, 1]]), r"shape \(1, 2\)"),
        (np.array([], dtype=np.int64), r"shape \(0,\)"),
    ],
)
def test_positions_of_the_wrong_kind(positions: Any, got: str) -> None:
    with pytest.raises(TypeError, match=rf"must be integers, \(m,\), at least one.*{got}.*mask.nonzero\(\)"):
        Indexed(numbers(1, 2, 3), positions)


@pytest.mark.parametrize("positions", [[0, 3], [-1, 0], [1, 1]])
def test_positions_that_are_not_in_the_training_set_or_occur_twice(positions: list[int]) -> None:
    with pytest.raises(ValueError, match="different numbers from 0 to 2"):
        Indexed(numbers(1, 2, 3), torch.tensor(positions))


def test_a_trusted_sample_twice_is_an_error() -> None:
    base = numbers(1, 2, 3)
    with pytest.raises(ValueError, match="a sample twice: pass each trusted sample once"):
        Indexed(base, Subset(base, [2, 2]))
