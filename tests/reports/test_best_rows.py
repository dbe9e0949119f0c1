"""The best rows of a column: a paired t-test at 1%, and cases without a test."""

from __future__ import annotations

import pytest
from scipy.stats import ttest_rel

from adiw.reports.best_rows import best_rows, comparable


def means(*values: float) -> dict[int, float]:
    return dict(enumerate(values))


def test_rows_within_the_noise_of_the_best_are_best_too() -> None:
    column = {"low": means(60, 61, 62), "top": means(89, 88.2, 88.9), "near": means(88.5, 88.6, 88.4), "none": {}}
    assert ttest_rel([89, 88.2, 88.9], [88.5, 88.6, 88.4]).pvalue > 0.01
    assert best_rows(column) == {"top", "near"}


def test_the_test_is_paired() -> None:
    # The trials differ more than the rows do: an unpaired test would find no difference.
    top, below = means(80, 85, 90, 95), means(79.0, 84.1, 88.95, 94.0)
    assert best_rows({"top": top, "below": below}) == {"top"}
    assert best_rows({"top": top, "below": {k: below[(k + 1) % 4] for k in below}}) == {"top", "below"}


def test_the_level_is_one_percent() -> None:
    top, other = [5.0, 5.0, 5.0, 5.0], [4.0, 4.2, 4.9, 4.1]
    assert 0.01 < ttest_rel(top, other).pvalue < 0.05
    assert comparable(means(*top), means(*other))
    other = [4.0, 4.2, 4.1, 3.9]
    assert ttest_rel(top, other).pvalue < 0.01
    assert not comparable(means(*top), means(*other))


@pytest.mark.parametrize(("shift", "expected"), [(0.0, True), (1e-13, True), (0.01, False), (5.0, False)])
def test_without_variance_equal_is_comparable_and_unequal_is_not(shift: float, expected: bool) -> None:
    values = [88.1, 88.3, 88.7]
    assert comparable(means(*values), means(*(value - shift for value in values))) is expected


def test_one_trial_is_never_the_best() -> None:
    assert best_rows({"a": means(90), "b": means(80, 81, 80)}) == set()
    assert best_rows({"a": means(90, 91, 92), "b": means(89)}) == {"a"}
    assert best_rows({"a": {}}) == best_rows({}) == set()


def test_rows_are_compared_on_the_trials_that_both_have() -> None:
    top = {0: 90.0, 1: 91.0, 2: 90.5}
    assert best_rows({"top": top, "b": {1: 91.0, 2: 90.5, 3: 10.0}}) == {"top", "b"}
    assert best_rows({"top": top, "b": {2: 90.5, 3: 90.0}}) == {"top"}
