"""The tables of a sweep: figures beside the paper's, and marks for everything that is missing."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from adiw.experiments.recipes import load
from adiw.reports.folders import read_sweep
from adiw.reports.grid import NONE, Grid, to_csv, to_text
from adiw.reports.results import Results
from adiw.reports.tables import accuracy_table, figures_table, time_table, write_tables
from tests.reports.sweep_folder import PROVENANCE, realistic, recipe, result, write

EPOCHS = 12


def sweep_of(folder: Path, lines: list[dict[str, Any]], rows: list[str], timing: Any = (), **more: Any) -> Results:
    plan = recipe(rows, ["x", "y"], **{"common": {"epochs": EPOCHS}, **more})
    return read_sweep(write(folder, plan, lines, timing))


def three(row: str, column: str, *ends: float, **more: Any) -> list[dict[str, Any]]:
    """A trial for each end: flat there in its last ten epochs."""
    return [result(row, column, trial, [1.0, 2.0] + [end] * 10, **more) for trial, end in enumerate(ends)]


def box(grid: Grid, row: str, column: int) -> tuple[str, bool]:
    found = next(boxes for boxes in grid.rows if boxes[0].text == row)[column]
    return found.text, found.bold


def test_our_figure_the_papers_and_the_difference(tmp_path: Path) -> None:
    lines = three("KL", "x", 80, 81, 82) + three("KM", "x", 60, 60.5, 61)
    paper = {"accuracy": {"KL": [[80.5, 0.25], None]}}
    grid = accuracy_table(sweep_of(tmp_path, lines, ["KL", "KM"], paper=paper))
    assert [head.full for head in grid.head][1:4] == ["x, ours", "x, paper", "x, diff."]
    assert [box(grid, "KL", k) for k in (1, 2, 3)] == [
        ("81.00 (0.82)", True),
        ("80.50 (0.25)", False),
        ("+0.50", False),
    ]
    assert [box(grid, "KM", k)[0] for k in (1, 2, 3)] == ["60.50 (0.41)", NONE, NONE]
    assert [box(grid, "KL", k)[0] for k in (4, 5, 6)] == [NONE, NONE, NONE]


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ([], NONE),
        (three("KL", "x", 80, 80), "80.00 (0.00); 2 of 3 trials, 1 missing"),
        (
            three("KL", "x", 80, 80) + three("KL", "x", 1, 1, 1, status="dead")[2:],
            "80.00 (0.00); 2 of 3 trials, 1 dead",
        ),
        (three("KL", "x", 1, 1, 1, status="dead"), "0 of 3 trials, 3 dead"),
        ([result("KL", "x", 1, [], status="failed")], "0 of 3 trials, 1 failed, 2 missing"),
        ([result("KL", "x", t, [80.0] * 40) for t in range(3)], "80.00 (0.00); 40 epochs"),
        ([result("KL", "x", t, [80.0] * (12 + t)) for t in range(3)], "80.00 (0.00); 12 and 13 and 14 epochs"),
        (three("KL", "x", 80, 80, 80, 80), "80.00 (0.00)"),
    ],
)
def test_missing_trials_are_in_the_cell(tmp_path: Path, lines: list[dict[str, Any]], text: str) -> None:
    assert box(accuracy_table(sweep_of(tmp_path, lines, ["KL"])), "KL", 1)[0] == text


def test_cells_without_a_trial_are_named_under_the_table(tmp_path: Path) -> None:
    results = sweep_of(tmp_path, three("KL", "x", 80, 81, 82), ["KL", "KM", "DIW"])
    note = f"Not run yet ({NONE}): x (KM, DIW); y (all rows)."
    assert note in accuracy_table(results).notes
    assert note in time_table(results).notes


def test_with_one_trial_there_is_no_bold(tmp_path: Path) -> None:
    lines = three("KL", "x", 80) + three("KM", "x", 70)
    grid = accuracy_table(sweep_of(tmp_path, lines, ["KL", "KM"], trials=1))
    assert not any(cell.bold for row in grid.rows for cell in row)


def test_the_oracle_and_shorter_runs_are_not_compared(tmp_path: Path) -> None:
    lines = three("oracle", "x", 99, 98, 99) + three("KL", "x", 80, 81, 82)
    lines += [result("DIW", "x", trial, [90.0] * 4) for trial in range(3)]
    grid = accuracy_table(sweep_of(tmp_path, lines, ["KL", "DIW", "oracle"]))
    assert [box(grid, row, 1)[1] for row in ("KL", "DIW", "oracle")] == [True, False, False]


def test_top_five_is_beside_top_one(tmp_path: Path) -> None:
    lines = three("KL", "x", 80, 81, 82)
    for line in lines:
        line["curves"]["top5"] = [99.0] * 12
    grid = accuracy_table(sweep_of(tmp_path, lines, ["KL"], measures=["accuracy", "top5"]))
    assert [head.full for head in grid.head][1:] == ["x, top-1", "x, top-5", "y, top-1", "y, top-5"]  # no paper
    assert box(grid, "KL", 2) == ("99.00 (0.00)", True)


def test_the_notes_have_hardware_versions_and_commits(tmp_path: Path) -> None:
    deviation = {"setting": "lr", "rows": "all", "paper": 0.1, "ours": 0.05, "chosen": "selection split"}
    lines = [*three("KL", "x", 1, 1, status="dead", reason="accuracy at chance"), result("gone", "x", 0, [1.0])]
    notes = "\n".join(accuracy_table(sweep_of(tmp_path, lines, ["KL"], deviations=[deviation])).notes)
    assert "3 trials of 12 epochs planned; evaluated on: test set" in notes
    assert "KL, x, trial 1: dead, accuracy at chance" in notes
    assert "Records without a cell in this recipe: gone, x." in notes
    assert "Hardware: NVIDIA H200; PyTorch: 2.9.0; commit: 0123456789ab." in notes
    assert "Recipe made-up. Nothing here was run." in notes
    assert "Deviation: lr of all rows is 0.05 (paper: 0.1). Chosen: selection split." in notes


def test_times_measured_alone_replace_those_of_shared_runs(tmp_path: Path) -> None:
    lines = three("uniform", "x", 80, seconds_per_epoch=2.0) + three("KL", "x", 80, side_by_side=8)
    lines += three("uniform", "y", 80, seconds_per_epoch=2.0)
    timing = [{"row": "uniform", "column": "x", "epochs": 3, "seconds_per_epoch": 0.25, **PROVENANCE}]
    paper = {"seconds": {"uniform": [8.0, 8.0], "KL": [16.0, None]}}
    grid = time_table(sweep_of(tmp_path, lines, ["uniform", "KL"], timing, paper=paper))
    assert [box(grid, "uniform", k)[0] for k in (1, 2, 3, 4)] == ["0.250", "8.00", "-7.75", "1.00 (1.00)"]
    assert [box(grid, "KL", k)[0] for k in (1, 2, 3, 4)] == ["0.500; 8 side by side", "16.00", NONE, f"{NONE} (2.00)"]
    assert [box(grid, "uniform", k)[0] for k in (5, 8)] == ["2.000", "1.00 (1.00)"]
    assert [box(grid, "KL", k)[0] for k in (5, 6, 7, 8)] == [NONE] * 4
    assert "Measured alone on the device over 3 epochs" in grid.notes[0]


def test_times_of_other_hardware_or_engines_are_not_compared(tmp_path: Path) -> None:
    fast = {"hardware": {"device": "H200"}, "engine": {"captured": True, "compiled": True}}
    slow = {"hardware": {"device": "x86"}, "engine": {"captured": False, "compiled": False}}
    eager = {"hardware": {"device": "H200"}, "engine": {"captured": False, "compiled": False}}
    lines = three("uniform", "x", 80, 80, 80) + three("DIW", "x", 80, seconds_per_epoch=31.0, **slow)
    lines += three("LS", "x", 80, seconds_per_epoch=0.2, **fast)
    rows = {"uniform": (0.1, fast), "KL": (0.4, eager), "KM": (0.12, fast)}
    timing = [
        {"row": row, "column": "x", "epochs": 4, "seconds_per_epoch": seconds, **PROVENANCE, **how}
        for row, (seconds, how) in rows.items()
    ]
    grid = time_table(sweep_of(tmp_path, lines, ["uniform", "KL", "KM", "DIW", "LS"], timing))
    shown = {row: (box(grid, row, 1)[0], box(grid, row, 4)[0]) for row in ("uniform", "KL", "KM", "DIW", "LS")}
    assert shown == {
        "uniform": ("0.100", "1.00"),
        "KL": ("0.400", NONE),
        "KM": ("0.120", "1.20"),
        "DIW": ("31.000; x86, eager", NONE),
        "LS": ("0.200", "2.00"),
    }
    assert "Computed on: H200, compiled and captured; H200, eager; x86, eager." in grid.notes
    assert any(note.startswith("Hardware: H200, x86;") for note in grid.notes)


def test_a_setting_that_was_timed_shows_the_seconds_beside_the_accuracy(tmp_path: Path) -> None:
    timing = [{"row": "KL", "column": "x", "epochs": 4, "seconds_per_epoch": 0.25, **PROVENANCE, "commit": "other"}]
    grid = accuracy_table(sweep_of(tmp_path, three("KL", "x", 80, 80, 80), ["KL", "KM"], timing))
    assert [head.full for head in grid.head][1:] == ["x", "x, s / epoch", "y"]
    assert [box(grid, "KL", k)[0] for k in (1, 2, 3)] == ["80.00 (0.00)", "0.250", NONE]
    assert box(grid, "KM", 2)[0] == NONE
    assert (
        "Seconds per epoch: training only, alone on the device over 4 epochs, without the first epoch."
        in grid.notes[0]
    )
    assert any(note.endswith("commit: 0123456789ab, other.") for note in grid.notes)


def test_without_a_uniform_row_there_are_no_ratios(tmp_path: Path) -> None:
    grid = time_table(sweep_of(tmp_path, three("KL", "x", 80), ["KL"]))
    assert [head.name for head in grid.head] == ["", "ours", "paper", "diff.", "ours", "paper", "diff."]


def test_csv_has_plain_columns_and_numbers(tmp_path: Path) -> None:
    lines = three("KL", "x", 80, 81, 82) + three("KM", "x", 10, status="dead")
    paper = {"accuracy": {"KL": [[80.5, 0.25], None]}, "seconds": {"KL": [4.0, None]}}
    sweep = sweep_of(tmp_path, lines, ["KL", "KM"], paper=paper)
    found = list(csv.DictReader(io.StringIO(to_csv(figures_table(sweep, ["accuracy", "seconds"])))))
    heads = "row column measure ours std trials dead failed missing paper paper_std difference best"
    assert " ".join(found[0]) == heads
    assert len(found) == 2 * 2 * 2
    assert list(found[0].values()) == [
        *("KL", "x", "accuracy", "81.0000", "0.8165", "3", "0", "0", "0", "80.5000", "0.2500", "0.5000", "1")
    ]
    assert list(found[1].values())[3:] == ["", "", "0", "1", "0", "2", "", "", "", "0"]
    seconds = next(line for line in found if line["measure"] == "seconds")
    assert (seconds["ours"], seconds["paper"], seconds["difference"]) == ("0.5000", "4.0000", "-3.5000")


def test_a_sweep_of_the_papers_size_is_written_as_eight_files(tmp_path: Path) -> None:
    sweep = read_sweep(realistic(tmp_path / "sweep", epochs=40))
    files = write_tables(sweep, tmp_path / "tables")
    assert sorted(file.name for file in files) == sorted(
        f"{name}.{ending}" for name in ("accuracy", "time") for ending in ("txt", "md", "tex", "csv")
    )
    text = (tmp_path / "tables" / "accuracy.txt").read_text()
    assert text == to_text(accuracy_table(sweep))
    for word in ("MW-Net", "Not run yet", "2 of 3 trials, 1 failed", "2 of 3 trials, 1 dead", "out of memory"):
        assert word in text


@pytest.mark.parametrize("name", ["fmnist-noise", "fmnist-prior", "imagenet-noise", "val-size", "transforms"])
def test_a_recipe_of_which_nothing_was_run_is_a_table_of_the_papers_figures(tmp_path: Path, name: str) -> None:
    plan = load(name).as_dict() | {"changes": {}}
    sweep = read_sweep(write(tmp_path, plan, []))
    grid = accuracy_table(sweep)
    assert {row[k].text for row in grid.rows for k in range(1, len(grid.head), 3)} == {NONE}
    figures = [figure for measure in sweep.measures for row in plan["paper"][measure].values() for figure in row]
    shown = sorted(row[k].text for row in grid.rows for k in range(2, len(grid.head), 3))
    assert shown == sorted(f"{f[0]:.2f} ({f[1]:.2f})" if f else NONE for f in figures)
    assert len(time_table(sweep).rows) == len(plan["rows"])
