"""Trusted sets from files, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from adiw.shifts import check_trusted, read_indices

Y = torch.arange(40) % 20


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
    with pytest.raises(ValueError, match="line 2: expected one integer, came 'seven'"):
        read_indices(text)
    text.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="not UTF-8"):
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
        with pytest.raises(ValueError, match="expected a plain integer array"):
            read_indices(tmp_path / name)


def test_a_good_trusted_set() -> None:
    check_trusted(torch.arange(20), Y, 20)


@pytest.mark.parametrize(
    ("trusted", "message"),
    [
        (torch.tensor([0, 40, -1]), "positions in 0 to 39, came 40, -1"),
        (torch.tensor([5, 5, 6]), "each position once, repeated 5"),
        (torch.arange(1, 19), "missing 0, 19; add"),
        (torch.tensor([], dtype=torch.int64), "missing 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 10 more"),
        (torch.tensor([0.0]), r"expected \(t,\) int64 positions"),
        (torch.tensor([[0]]), r"expected \(t,\) int64 positions"),
        (torch.tensor([True]), "turn a mask into positions"),
    ],
)
def test_bad_trusted_sets(trusted: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_trusted(trusted, Y, 20)
