"""Reading a sweep's folder: every planned trial is done, dead, failed or missing."""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from adiw.reports.sweeps import read_sweep
from tests.reports.sweep_folder import recipe, result, write


def test_every_planned_trial_has_a_state(tmp_path: Path) -> None:
    lines = [
        result("a", "x", 0, [50.0] * 400),
        result("a", "x", 2, [10.0] * 7, status="dead", reason="chance"),
        result("b", "x", 1, [], status="failed", reason="memory"),
    ]
    sweep = read_sweep(write(tmp_path, recipe(["a", "b"], ["x", "y"]), lines))
    assert (sweep.rows, sweep.columns, sweep.epochs) == (["a", "b"], ["x", "y"], 400)
    counts = {
        place: [cell.count(kind) for kind in ("done", "dead", "failed", "missing")]
        for place, cell in sweep.cells.items()
    }
    assert counts[("a", "x")] == [1, 1, 0, 1]
    assert counts[("b", "x")] == [0, 0, 1, 2]
    assert counts[("a", "y")] == counts[("b", "y")] == [0, 0, 0, 3]
    assert sweep.cells["a", "x"].missing == (1,)
    assert [trial.reason for trial in sweep.trials()] == [None, "chance", "memory"]


def test_a_figure_pools_the_last_ten_epochs_of_the_finished_trials(tmp_path: Path) -> None:
    first, second = [0.0] * 5 + list(map(float, range(10))), [float(v) for v in range(20, 32)]
    lines = [result("a", "x", 0, first), result("a", "x", 1, second), result("a", "x", 2, [99.0], status="dead")]
    cell = read_sweep(write(tmp_path, recipe(["a"], ["x"]), lines)).cells["a", "x"]
    pooled = first[-10:] + second[-10:]
    assert cell.figure("accuracy") == (statistics.fmean(pooled), statistics.pstdev(pooled))
    assert cell.means("accuracy") == {0: 4.5, 1: 26.5}
    assert cell.epochs == [12, 15]
    assert cell.figure("top5") is None


def test_a_record_without_curves_still_has_its_mean(tmp_path: Path) -> None:
    line = result("a", "x", 0, [70.0, 72.0])
    line["curves"] = None
    cell = read_sweep(write(tmp_path, recipe(["a"], ["x"]), [line])).cells["a", "x"]
    assert cell.figure("accuracy") == (71.0, 0.0)


def test_a_later_line_replaces_what_was_not_done_and_nothing_else(tmp_path: Path) -> None:
    lines = [
        result("a", "x", 0, [], status="failed"),
        result("a", "x", 0, [80.0]),
        result("a", "x", 0, [10.0], status="dead"),
        result("a", "x", 0, [90.0]),
        result("a", "x", 1, [10.0], status="dead", reason="first"),
        result("a", "x", 1, [], status="failed", reason="second"),
    ]
    cell = read_sweep(write(tmp_path, recipe(["a"], ["x"]), lines)).cells["a", "x"]
    assert [(trial.status, trial.reason) for trial in cell.trials] == [("done", None), ("failed", "second")]
    assert cell.means("accuracy") == {0: 80.0}


def test_more_trials_than_planned_count_and_unknown_places_are_told(tmp_path: Path) -> None:
    lines = [result("a", "x", 7, [80.0]), result("old", "x", 0, [80.0])]
    sweep = read_sweep(write(tmp_path, recipe(["a"], ["x"], trials=1), lines))
    assert [trial.number for trial in sweep.cells["a", "x"].trials] == [7]
    assert sweep.cells["a", "x"].missing == (0,)
    assert sweep.strangers == ("old, x",)


def test_the_papers_figures_and_the_rows_methods(tmp_path: Path) -> None:
    paper = {"accuracy": {"A": [[80.0, 1.0], None]}, "seconds": {"A": [1.5, 2.5]}}
    sweep = read_sweep(write(tmp_path, recipe(["A", "B"], ["x", "y"], paper=paper), []))
    assert [sweep.paper("accuracy", "A", column) for column in "xy"] == [[80.0, 1.0], None]
    assert (sweep.paper("seconds", "A", "y"), sweep.paper("seconds", "B", "y"), sweep.paper("top5", "A", "x")) == (
        2.5,
        None,
        None,
    )
    assert sweep.method("B") == "b"


def test_a_folder_without_a_sweep_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no sweep found in .*: a sweep's folder holds a recipe.json"):
        read_sweep(tmp_path)


def test_reading_and_tables_need_no_torch() -> None:
    # adiw itself imports torch: it is replaced by an empty package with the same folder
    code = (
        "import sys, types, pathlib; p = types.ModuleType('adiw'); "
        f"p.__path__ = [{str(Path(__file__).parents[2] / 'src' / 'adiw')!r}]; sys.modules['adiw'] = p; "
        "import adiw.reports.tables, adiw.reports.stage_table, adiw.reports.figures; "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
