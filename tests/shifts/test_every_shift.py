"""The shared suite, run over the table."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from adiw.shifts import SHIFTS, Shift, parse
from tests.shifts.suite import CASES, CHECKS, NUM_CLASSES, N, X, Y, apply, check_weights_restore_the_data


def test_cases_are_the_table() -> None:
    assert CASES.keys() == SHIFTS.keys()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", CASES)
def test_every_shift(name: str, check: Callable[[Shift], None]) -> None:
    check(parse(CASES[name]))


@pytest.mark.parametrize("name", sorted(CASES.keys() - {"class-prior"}))  # its rare classes are too small
def test_weights_account_for_the_trusted_when_they_are_half_of_the_data(name: str) -> None:
    check_weights_restore_the_data(parse(CASES[name]), trusted=N // 2)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("trusted", [-5, N + 5])
def test_impossible_number_of_trusted_samples(name: str, trusted: int) -> None:
    with pytest.raises(ValueError, match=f"expected 0 to {N}"):
        apply(parse(CASES[name]), trusted=trusted)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    "y",
    [torch.tensor([0, 5]), torch.tensor([-1, 0]), torch.zeros(2), torch.zeros(2, 1).long(), torch.zeros(0).long()],
)
def test_bad_labels(name: str, y: Tensor) -> None:
    with pytest.raises(ValueError, match="labels: expected"):
        parse(CASES[name]).apply(X[: len(y)], y, NUM_CLASSES, 0, torch.Generator())


@pytest.mark.parametrize("name", CASES)
def test_labels_that_are_not_a_tensor(name: str) -> None:
    with pytest.raises(
        TypeError, match=r"labels: expected a \(n,\) int64 tensor, got list; convert with torch\.as_tensor"
    ):
        parse(CASES[name]).apply(X[:2], [0, 1], NUM_CLASSES, 0, torch.Generator())  # type: ignore[arg-type]


@pytest.mark.parametrize("name", CASES)
def test_one_class_is_too_few(name: str) -> None:
    with pytest.raises(ValueError, match="num_classes: expected at least 2"):
        parse(CASES[name]).apply(X, Y * 0, 1, 0, torch.Generator())
