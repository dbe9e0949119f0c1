"""Trusted samples: how many of which classes are drawn, and which files and positions are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from adiw.shifts import NoShift, check_trusted, read_indices
from adiw.shifts.trusted import draw_per_class, draw_trusted, proportional

Y = torch.arange(40) % 20


@settings(deadline=None, max_examples=50, derandomize=True, database=None)
@given(counts=st.lists(st.integers(0, 30), min_size=1, max_size=8).filter(any), share=st.floats(0, 1))
def test_proportional_sums_and_stays_within_one(counts: list[int], share: float) -> None:
    total = int(share * sum(counts))
    sizes = proportional(total, counts)
    assert sum(sizes) == total
    for size, count in zip(sizes, counts, strict=True):
        assert size <= count
        assert abs(size - total * count / sum(counts)) < 1


def test_draws_are_uniform() -> None:
    """Each of ten samples is among the three drawn with probability 0.3: within four standard deviations."""
    y = torch.arange(10)
    draws = torch.cat([draw_trusted(y, 3, torch.Generator().manual_seed(seed)) for seed in range(2000)])
    sd = (2000 * 0.3 * 0.7) ** 0.5
    assert bool(((draws.bincount() - 600).abs() < 4 * sd).all())


def test_a_draw_that_misses_a_class_is_made_again_by_class() -> None:
    y = torch.arange(1000) % 10
    for seed in range(20):
        drawn = draw_trusted(y, 10, torch.Generator().manual_seed(seed))
        assert y[drawn].sort().values.tolist() == list(range(10))
        assert drawn.tolist() == sorted(drawn.tolist())


def test_a_draw_that_holds_every_class_stays_as_it_was() -> None:
    y = torch.arange(1000) % 10
    for seed in range(20):
        drawn = draw_trusted(y, 200, torch.Generator().manual_seed(seed))
        assert torch.equal(drawn, torch.randperm(1000, generator=torch.Generator().manual_seed(seed))[:200].sort()[0])
        assert len(y[drawn].bincount().unique()) > 1  # not the same number of each


def test_a_draw_too_small_for_all_classes_stays_as_it_was() -> None:
    y = torch.cat([torch.zeros(990), torch.ones(10)]).long()  # in proportion, two are of the first class
    drawn = draw_trusted(y, 2, torch.Generator().manual_seed(0))
    assert torch.equal(drawn, torch.randperm(1000, generator=torch.Generator().manual_seed(0))[:2].sort()[0])


def test_draws_within_classes_are_uniform() -> None:
    y = torch.tensor([1, 0, 1, 0, 1, 1])
    draws = torch.stack([draw_per_class(y, [1, 2], torch.Generator().manual_seed(seed)) for seed in range(2000)])
    assert bool((y[draws].sum(1) == 2).all())
    sd = (2000 * 0.5 * 0.5) ** 0.5  # one of two, and two of four
    assert bool(((draws.flatten().bincount() - 1000).abs() < 4 * sd).all())


def test_data_already_shifted_have_no_trusted_set_by_default() -> None:
    y = torch.tensor([0, 1, 1, 0])
    for trusted, count in ((None, 0), (3, 3)):
        shifted = NoShift().apply(None, y, 2, trusted, torch.Generator().manual_seed(0))
        assert len(shifted.trusted) == count
        assert shifted.true_weights is None
        assert torch.equal(shifted.y, y)


def test_text_and_npy_read_the_same(tmp_path: Path) -> None:
    text, array = tmp_path / "trusted.txt", tmp_path / "trusted.npy"
    text.write_text("3\n\n 17 \n0\n")
    np.save(array, np.array([3, 17, 0], dtype=np.uint16))
    for file in (text, str(array)):
        indices = read_indices(file)
        assert indices.dtype == torch.int64
        assert indices.tolist() == [3, 17, 0]


def test_an_empty_file_has_no_indices(tmp_path: Path) -> None:
    (tmp_path / "none.txt").write_text("")
    assert read_indices(tmp_path / "none.txt").shape == (0,)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"found none at .*absent\.txt; check the path"):
        read_indices(tmp_path / "absent.txt")
    text = tmp_path / "trusted.txt"
    text.write_text("3\nseven\n")
    with pytest.raises(ValueError, match=r"trusted\.txt: expected one integer per line.*'seven'"):
        read_indices(text)
    text.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"expected one integer per line.*utf-8"):
        read_indices(text)


@pytest.mark.parametrize("array", [np.array([1.0]), np.array([True]), np.array([[1]]), np.array(1)])
def test_arrays_that_are_not_indices(tmp_path: Path, array: np.ndarray) -> None:
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(ValueError, match=r"expected a \(t,\) array of integers"):
        read_indices(tmp_path / "a.npy")


def test_pickles_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    (tmp_path / "b.npy").write_bytes(b"")
    for name in ("a.npy", "b.npy"):
        with pytest.raises(ValueError, match=r"expected one integer per line, or an array of numpy\.save"):
            read_indices(tmp_path / name)


def test_a_good_trusted_set() -> None:
    check_trusted(torch.arange(20), Y, 20)


@pytest.mark.parametrize(
    ("trusted", "message"),
    [
        (torch.tensor([0, 40, -1]), "positions in 0 to 39, got 40, -1"),
        (torch.tensor([5, 5, 6]), "each position once, repeated 5"),
        (torch.arange(1, 19), "missing 0, 19; add"),
        (torch.tensor([], dtype=torch.int64), "missing 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 10 more"),
        (torch.tensor([0.0]), r"expected \(t,\) int64 positions"),
        (torch.tensor([[0]]), r"expected \(t,\) int64 positions"),
        (torch.tensor([True]), "convert a mask"),
    ],
)
def test_bad_trusted_sets(trusted: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_trusted(trusted, Y, 20)
