"""Figures of a cell: which trials count, and what is said of the others."""

from __future__ import annotations

import statistics
from typing import Any

import pytest

from adiw.reports.page_model import Page, Trial


def trial(status: str, values: list[float], seconds: float | None = None) -> Trial:
    return Trial("r", "c", status, None, {"accuracy": values}, seconds, {}, None, None)


def page(*trials: Trial, **more: Any) -> Page:
    return Page("t", "", ["r", "s"], ["b", "c"], trials, **more)


def test_only_finished_trials_count_and_the_others_are_said() -> None:
    trials = [trial("done", [60.0]), trial("done", [70.0]), trial("dead", [10.0]), trial("failed", [])]
    cell = page(*trials, planned=6).cell("r", "c", "accuracy")
    assert (cell.mean, cell.std) == (65, statistics.stdev([60, 70]))
    assert cell.note == "1 dead, 1 failed, 2 missing"
    empty = page(*trials, planned=6).cell("s", "b", "accuracy")
    assert (empty.mean, empty.std, empty.note) == (None, None, "6 missing")
    assert page(*trials).cell("s", "b", "accuracy").note == ""  # nobody planned it


def test_pooled_values_have_the_std_of_their_population() -> None:
    trials = [trial("done", [60.0, 62.0]), trial("done", [70.0, 72.0])]
    assert page(*trials, pooled=True).cell("r", "c", "accuracy").std == statistics.pstdev([60, 62, 70, 72])
    assert page(trial("done", [60.0])).cell("r", "c", "accuracy").std is None


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ([None, [61.5, 0.5]], (61.5, 0.5, -1.5)),
        ([None, 50], (50, None, 10)),
        ([None, None], (None, None, None)),
        ([None], (None, None, None)),
    ],
)
def test_the_papers_figure_is_that_of_the_column(figures: list[Any], expected: tuple[Any, ...]) -> None:
    cell = page(trial("done", [60.0]), paper={"accuracy": {"r": figures}}).cell("r", "c", "accuracy")
    assert (cell.paper, cell.paper_std, cell.difference) == expected


def test_there_is_no_difference_without_a_figure_of_ours() -> None:
    cell = page(paper={"accuracy": {"r": [1, 2]}}).cell("r", "c", "accuracy")
    assert (cell.paper, cell.difference) == (2, None)


def test_a_sweeps_times_are_those_measured_alone() -> None:
    trials = [trial("done", [1.0], 0.5), trial("done", [1.0], 0.7), trial("dead", [1.0], 9.0)]
    assert page(*trials).seconds("r", "c").mean == pytest.approx(0.6)
    assert page(*trials, planned=2).seconds("r", "c").mean is None  # side by side says nothing
    alone = page(*trials, planned=2, timed={("r", "c"): 0.25}, paper={"seconds": {"r": [None, 12]}}).seconds("r", "c")
    assert (alone.mean, alone.paper) == (0.25, 12)
