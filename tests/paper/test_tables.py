"""The tables of the pages on the paper's results: dashes for cells that have not been run, deviations, times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adiw.reports.grid import NONE
from paper.tables import deviations_table, results_table, stages_table, times_table
from tests.reports import sweep_folder
from tests.reports.sweep_folder import recipe, write

ROOT = Path(__file__).parents[2]
FIGURES = [[90.0, 0.1], [80.0, 0.2], [70.0, 0.3]]


def result(row: str, column: str, trial: int) -> dict[str, Any]:
    return sweep_folder.result(row, column, trial, [80.0 + trial] * 10)


def cells(table: str) -> dict[str, list[str]]:
    """First column -> the other columns of a Markdown table."""
    rows = [line[2:-2].split(" | ") for line in table.splitlines() if line.startswith("| ")]
    return {first: rest for first, *rest in rows}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Rows a, b and c in the columns x, y and z, two trials: a has x and y, b one trial in x, c and z nothing."""
    lines = [result("a", column, trial) for column in ("x", "y") for trial in (0, 1)]
    paper = {"accuracy": {"b": FIGURES, "c": FIGURES}}
    plan = recipe(["a", "b", "c"], ["x", "y", "z"], trials=2, paper=paper, common={"epochs": 10})
    return write(tmp_path / "sweep", plan, [*lines, result("b", "x", 0)])


def test_a_cell_without_a_run_is_a_dash_and_is_listed(folder: Path) -> None:
    table = results_table(folder)
    found = cells(table)
    assert found["b"][0].endswith("; 1 of 2 trials")
    assert found["b"][1:] == ["90.00 (0.10)", NONE, "80.00 (0.20)"]
    assert found["a"][1] == found["a"][3] == NONE  # the paper does not have this row
    assert "c" not in found  # nothing of this row, and of the column z, has been run
    assert f"Not run yet ({NONE}): x (c); y (b, c); z (all rows)." in table
    assert "missing" not in table


def test_the_note_lists_the_rows_of_each_column(tmp_path: Path) -> None:
    plan = recipe(["a", "b"], ["x", "y"], trials=1)
    assert f"Not run yet ({NONE}): x (all rows); y (all rows)." in results_table(write(tmp_path / "none", plan, []))
    lines = [result("a", column, 0) for column in ("x", "y")]
    assert f"Not run yet ({NONE}): x (b); y (b)." in results_table(write(tmp_path / "some", plan, lines))
    everything = [*lines, *(result("b", column, 0) for column in ("x", "y"))]
    assert "Not run yet" not in results_table(write(tmp_path / "all", plan, everything))


def test_the_hardware_is_listed_with_the_rows_of_exceptions(folder: Path) -> None:
    assert "Hardware: NVIDIA H200." in results_table(folder)
    with (folder / "results.jsonl").open("a") as file:
        file.write(json.dumps(result("b", "y", 0) | {"hardware": {"device": "x86_64"}}) + "\n")
    assert r"Hardware: NVIDIA H200; x86\_64: b." in results_table(folder)


def test_the_deviations_are_a_row_each(tmp_path: Path) -> None:
    one = {"setting": "weight_decay", "rows": "all", "paper": "not stated", "ours": 0.001, "chosen": "a sweep"}
    other = {"setting": "exact", "rows": ["a", "b"], "paper": True, "ours": False, "chosen": "the same"}
    (tmp_path / "recipe.json").write_text(json.dumps({"deviations": [one, other]}))
    assert deviations_table(tmp_path).splitlines()[2:] == [
        "| `weight_decay` | all | not stated | 0.001 | a sweep |",
        "| `exact` | a, b | True | False | the same |",
    ]


def test_times_are_those_of_the_timed_columns() -> None:
    found = cells(times_table(ROOT / "results" / "fmnist-noise-ours"))
    assert all(head.startswith("0.4 symmetric, ") for head in found[""])
    timing = (ROOT / "results" / "fmnist-noise-ours" / "timing.jsonl").read_text().splitlines()
    for line in map(json.loads, timing):
        assert found[line["row"]][0] == f"{line['seconds_per_epoch']:.3f}"


def test_a_profile_is_drawn_as_its_two_tables() -> None:
    table = stages_table(ROOT / "paper" / "results" / "profile-cifar10")
    assert table.count("### CIFAR-10: where a step spends its time: ") == 2
    assert table.count("| estimate weights |") == 2


def test_every_record_is_drawn_on_a_page() -> None:
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "paper" / "README.md"]
    text = "".join(page.read_text() for page in pages)
    for folder in [
        *(ROOT / "paper" / "results").iterdir(),
        *(file.parent for file in ROOT.glob("results/*/recipe.json")),
    ]:
        assert f"results/{folder.name} -->" in text, folder


def test_evaluating_every_fourth_step_costs_little() -> None:
    """The default of val_every: at most 0.25 points on average for every divergence, over pairs of the same seed."""
    lines = (ROOT / "paper" / "results" / "fmnist-val-every" / "results.jsonl").read_text().splitlines()
    found = {(line["row"], line["column"], line["trial"]): line["accuracy"] for line in map(json.loads, lines)}
    rows, trials = {row for row, _, _ in found}, {trial for _, _, trial in found}
    assert (len(rows), len(trials)) == (4, 5)
    for row in rows:
        costs = [found[row, "all, every step", one] - found[row, "all, every 4th step", one] for one in trials]
        assert 0 < sum(costs) / len(costs) < 0.25, row
