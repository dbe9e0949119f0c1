"""The table of the divergences: which runs it takes its figures from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from adiw.reports.grid import NONE
from divergence_table import divergence_table
from tests.reports.sweep_folder import recipe, result, write

METHODS = {
    "Uniform": "uniform",
    "KL": "adiw-kl",
    "KL, wide": "adiw-kl",
    "KM": "adiw-km",
    "Oracle": "oracle",
    "L2R": "l2r",
    "Energy": "adiw-energy",
}


def records(folder: Path, judged_on: str, figures: dict[str, float], shift: str = "pair:0.3") -> None:
    """A sweep in which every row of ``figures`` has one trial, flat at its figure."""
    plan = recipe(list(METHODS), ["x"], name=folder.name)
    lines = [_line(row, value, judged_on, shift) for row, value in figures.items()]
    folder.mkdir(parents=True)
    write(folder, plan, lines)


def _line(row: str, value: float, judged_on: str, shift: str) -> dict[str, Any]:
    settings = {"dataset": "digits", "shift": shift, "method": METHODS[row]}
    return result(row, "x", 0, [value] * 12, settings=settings, judged_on=judged_on)


def boxes(results: Path) -> list[list[str]]:
    return [[box.text for box in row] for row in divergence_table(results).rows]


@pytest.mark.parametrize(("judged_on", "kl"), [("test set", "80.00 (0.00)"), ("selection split", "85.00 (0.00)")])
def test_on_the_test_set_nothing_is_chosen(tmp_path: Path, judged_on: str, kl: str) -> None:
    records(tmp_path / "one", judged_on, {"Uniform": 60, "KL": 80, "KL, wide": 85, "KM": 70, "Oracle": 90})
    (row,) = boxes(tmp_path)
    assert row[1:] == ["1", "60.00 (0.00)", kl, "70.00 (0.00)", NONE, NONE, "90.00 (0.00)"]
    assert row[0].startswith("digits, pair:0.3 (one, 12 epochs")
    assert ("selection split" in row[0]) == (judged_on == "selection split")


def test_a_sweep_that_compares_nothing_has_no_line(tmp_path: Path) -> None:
    records(tmp_path / "one", "test set", {"Uniform": 60, "KL": 80, "Oracle": 90})
    assert boxes(tmp_path) == []
    records(tmp_path / "two", "test set", {"KL": 80, "KM": 81})
    assert [row[0] for row in boxes(tmp_path)] == ["digits, pair:0.3 (two, 12 epochs)"]


def test_a_divergence_beyond_the_papers_has_a_column_once_it_has_records(tmp_path: Path) -> None:
    records(tmp_path / "one", "test set", {"KL": 80, "KM": 81})
    assert "energy" not in [head.name for head in divergence_table(tmp_path).head]
    records(tmp_path / "two", "test set", {"KL": 80, "Energy": 82})
    grid = divergence_table(tmp_path)
    at = [head.name for head in grid.head].index("energy")
    assert [row[at].text for row in grid.rows] == [NONE, "82.00 (0.00)"]


def test_only_trials_of_the_methods_it_shows_are_counted(tmp_path: Path) -> None:
    figures = {"KL": 80.0, "KM": 81.0}
    records(tmp_path / "one", "test set", figures)
    twice = [
        _line(row, value, "test set", "pair:0.3") | {"trial": k} for k in (0, 1) for row, value in figures.items()
    ]
    once = _line("L2R", 79, "test set", "pair:0.3")
    write(tmp_path / "one", recipe(list(METHODS), ["x"], trials=2), [*twice, once])
    ((_, trials, *_),) = boxes(tmp_path)
    assert trials == "2"
