"""Results read from folders: sweeps, runs, folders of runs, and damaged files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from adiw.reports.folders import RECIPE, explain_bad_files, from_runs, read_results, read_run, read_runs, read_sweep
from adiw.reports.tables import accuracy_table
from tests.reports.folders import record, write_run, write_sweep
from tests.reports.sweep_folder import recipe, result, write

ROOT = Path(__file__).parents[2]
RECORDED = [file.parent for at in ("results", "paper/results") for file in sorted(ROOT.glob(f"{at}/*/recipe.json"))]


@pytest.mark.parametrize("folder", RECORDED, ids=lambda folder: folder.name)
def test_every_committed_sweep_is_read_completely(folder: Path) -> None:
    results = read_sweep(folder)
    lines = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    places = {(line["row"], line["column"], line["trial"]) for line in lines}
    found = {(cell.row, cell.column, trial.number) for cell in results.cells.values() for trial in cell.trials}
    assert found == places
    assert results.unplaced == ()
    assert all(cell.figure("accuracy") for cell in results.cells.values() if cell.done)


def test_there_are_committed_sweeps() -> None:
    assert len(RECORDED) > 5


def test_every_planned_trial_has_a_status(tmp_path: Path) -> None:
    lines = [
        result("a", "x", 0, [50.0] * 400),
        result("a", "x", 2, [10.0] * 7, status="dead", reason="chance"),
        result("b", "x", 1, [], status="failed", reason="memory"),
    ]
    results = read_sweep(write(tmp_path, recipe(["a", "b"], ["x", "y"]), lines))
    assert (results.rows, results.columns, results.epochs, results.planned) == (["a", "b"], ["x", "y"], 400, 3)
    counts = {
        place: [cell.count(kind) for kind in ("done", "dead", "failed", "missing")]
        for place, cell in results.cells.items()
    }
    assert counts["a", "x"] == [1, 1, 0, 1]
    assert counts["b", "x"] == [0, 0, 1, 2]
    assert counts["a", "y"] == counts["b", "y"] == [0, 0, 0, 3]
    assert results.cells["a", "x"].missing == (1,)
    assert [trial.reason for trial in results.trials] == [None, "chance", "memory"]


def test_a_later_record_replaces_one_that_is_not_done(tmp_path: Path) -> None:
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


def test_more_trials_than_planned_count_and_records_without_a_cell_are_named(tmp_path: Path) -> None:
    lines = [result("a", "x", 7, [80.0]), result("old", "x", 0, [80.0]), result("a", "old", 0, [80.0])]
    results = read_sweep(write(tmp_path, recipe(["a"], ["x"], trials=1), lines))
    assert [trial.number for trial in results.cells["a", "x"].trials] == [7]
    assert results.cells["a", "x"].missing == (0,)
    assert results.unplaced == ("a, old", "old, x")


def test_folders_of_runs_are_used_where_they_exist(tmp_path: Path) -> None:
    folder = write_sweep(tmp_path, [record("KL", "a", 0, [1.0]), record("KL", "a", 1, [1.0])], ["KL"], ["a"])
    write_run(folder / "runs" / "KL-a-1", "adiw-kl", [1.0])
    assert [trial.folder for trial in read_results(folder).trials] == [None, folder / "runs" / "KL-a-1"]


def test_a_sweep_without_records(tmp_path: Path) -> None:
    results = read_results(write_sweep(tmp_path, [], ["KL"], ["a"]))
    assert (results.cells["KL", "a"].note, results.paper("accuracy", "KL", "a")) == ("2 missing", None)


def test_a_cut_line_is_excluded_and_a_damaged_one_is_reported(tmp_path: Path) -> None:
    folder = write_sweep(tmp_path, [record("KL", "a", 0, [1.0])], ["KL"], ["a"])
    with (folder / "results.jsonl").open("a") as file:
        file.write('{"row": "KL", "col')
    assert len(read_results(folder).trials) == 1
    with (folder / "results.jsonl").open("a") as file:
        file.write("\n")
    with pytest.raises(ValueError, match=r"results.jsonl, line 2 is damaged \(.*\): restore it"):
        read_results(folder)


def test_records_that_are_not_a_sweeps_are_reported(tmp_path: Path) -> None:
    folder = write_sweep(tmp_path, [{"row": "KL"}], ["KL"], ["a"])
    with pytest.raises(ValueError, match="has no 'column'"):
        read_results(folder)
    plan = json.loads((folder / "recipe.json").read_text())
    (folder / "results.jsonl").write_text("")
    for key in RECIPE:
        (folder / "recipe.json").write_text(json.dumps({k: v for k, v in plan.items() if k != key}))
        with pytest.raises(ValueError, match=f"has no '{key}'"):
            read_results(folder)
    (folder / "recipe.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"no recipe\.json, which says what was planned"):
        read_results(folder)
    with pytest.raises(FileNotFoundError, match=r"no sweep found in .*: a sweep's folder holds a recipe.json"):
        read_sweep(folder)


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    flipped, weights = [False] * 3 + [True], [2.0, 2, 1, 0]
    folder = write_run(tmp_path / "a", "adiw-kl", [50.0, 70.0], flipped=flipped, weights=weights)
    run = read_run(folder)
    assert (run.method, run.status, run.mean("accuracy"), run.seconds) == ("adiw-kl", "done", 60.0, 0.5)
    assert run.curves == {"accuracy": [50.0, 70.0], "ess": [2.0, 3.0]}
    assert run.folder == folder
    assert run.weights is not None
    groups = run.weights["groups"]
    assert {name: (group["count"], sum(group["histogram"])) for name, group in groups.items()} == {
        "intact": (3, 3),
        "mislabelled": (1, 1),
    }


def test_without_a_result_a_run_is_unfinished(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "diw", [50.0, 60.0], status=None)
    assert (read_run(folder).status, read_run(folder).curves["accuracy"]) == ("unfinished", [50.0, 60.0])
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 3, "accu')  # cut by a full disk
    assert read_run(folder).curves["accuracy"] == [50.0, 60.0]
    (folder / "metrics.jsonl").unlink()  # before its first epoch
    assert read_run(folder).curves == {}


def test_a_dead_run_may_have_weights_that_are_not_finite_or_none(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "adiw-kl", [50.0], "dead")
    np.save(folder / "weights.npy", np.array([np.nan, 1.0], np.float32))
    weights = read_run(folder).weights
    assert weights is not None
    assert {name: group["count"] for name, group in weights["groups"].items()} == {"mislabelled": 1}
    (folder / "weights.npy").unlink()  # it is dead before its first epoch
    assert read_run(folder).weights is None


def test_arrays_are_not_unpickled(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "diw", [50.0])
    np.save(folder / "weights.npy", np.array([{"code": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle"):
        read_run(folder)


def test_settings_that_are_not_an_object_are_reported(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "diw", [50.0])
    (folder / "config.json").write_text("[]")
    with pytest.raises(ValueError, match=r"config\.json holds no settings: restore it"):
        read_run(folder)


def test_all_runs_below_a_folder(tmp_path: Path) -> None:
    for name in ("b/two", "a/one", "c"):
        write_run(tmp_path / name, name, [1.0])
    runs = read_runs(tmp_path)
    assert [(run.method, run.number) for run in runs] == [("a/one", 0), ("b/two", 1), ("c", 2)]
    for nothing in (tmp_path / "a" / "one" / "missing", tmp_path / "empty"):
        with pytest.raises(FileNotFoundError, match="no runs found below"):
            read_runs(nothing)


def test_rows_are_methods_in_their_order_and_columns_are_the_data(tmp_path: Path) -> None:
    for i, (method, shift) in enumerate([("oracle", "pair:0.3"), ("mine", "pair:0.3"), ("uniform", "symmetric:0.4")]):
        write_run(tmp_path / str(i), method, [50.0], dataset="digits", shift=shift)
    results = read_results(tmp_path)
    assert results.rows == ["uniform", "oracle", "mine"]
    assert results.columns == ["digits, pair:0.3", "digits, symmetric:0.4"]
    assert [len(results.cells[row, results.columns[0]].trials) for row in results.rows] == [0, 1, 1]
    assert results.title == "digits, pair:0.3, digits, symmetric:0.4"
    assert results.planned is None
    assert from_runs(read_runs(tmp_path), "Mine").title == "Mine"


def test_runs_that_differ_in_more_than_the_seed_are_not_taken_for_seeds(tmp_path: Path) -> None:
    for i, (width, lr) in enumerate([(0.5, 0.1), (0.5, 0.1), (2.0, 0.1)]):
        write_run(tmp_path / str(i), "adiw-kl", [50.0 + i], seed=i, width=width, lr=lr)
    write_run(tmp_path / "9", "uniform", [50.0], width=None, lr=0.2)
    results = read_results(tmp_path)
    assert results.rows == ["uniform", "adiw-kl (width 0.5)", "adiw-kl (width 2.0)"]
    assert results.cells["adiw-kl (width 0.5)", "runs"].figure("accuracy") == (50.5, pytest.approx(0.5**0.5))


def test_settings_that_only_other_data_have_are_not_in_the_name_of_a_method(tmp_path: Path) -> None:
    for i, (shift, lr, width) in enumerate([("none", 0.1, 1.0), ("pair", 0.2, 1.0), ("pair", 0.2, 2.0)]):
        write_run(tmp_path / str(i), "uniform", [50.0], dataset="digits", shift=shift, lr=lr)
        write_run(tmp_path / f"{i}-kl", "adiw-kl", [50.0], dataset="digits", shift=shift, lr=lr, width=width)
    assert read_results(tmp_path).rows == ["uniform", "adiw-kl (width 1.0)", "adiw-kl (width 2.0)"]


def test_seeds_of_a_method_are_averaged_and_the_others_counted(tmp_path: Path) -> None:
    runs = [("adiw-kl", 60.0, "done", 1.0), ("adiw-kl", 70.0, "done", 2.0), ("adiw-kl", 95.0, "done", 6.0)]
    runs += [("adiw-kl", 10.0, "dead", 1.0), ("adiw-kl", 90.0, "", 1.0), ("broken", 10.0, "dead", 1.0)]
    for i, (method, accuracy, status, seconds) in enumerate(runs):
        write_run(tmp_path / str(i), method, [accuracy], status or None, seconds)
    kl, broken = read_results(tmp_path).cells.values()
    assert list(kl.means("accuracy").values()) == [60.0, 70.0, 95.0]
    assert (kl.figure("accuracy"), kl.seconds) == ((75.0, pytest.approx(18.0278, abs=1e-4)), 3.0)
    assert (kl.note, broken.note) == ("1 dead, 1 unfinished", "1 dead")
    assert (broken.figure("accuracy"), broken.seconds) == (None, None)


def test_the_settings_that_all_runs_share_and_what_they_were_made_with(tmp_path: Path) -> None:
    for i in range(2):
        folder = write_run(tmp_path / str(i), "adiw-kl", [50.0], seed=i, lr=0.1, cap=None)
        content = json.loads((folder / "result.json").read_text())
        (folder / "result.json").write_text(json.dumps({**content, "commit": f"c{i}", "hardware": {"device": "x86"}}))
    found = read_results(tmp_path)
    assert found.recipe["common"] == {"method": "adiw-kl", "lr": 0.1}
    assert accuracy_table(found).notes[-1] == "Hardware: x86; commit: c0, c1."


def test_errors_from_the_content_of_files_name_the_folder() -> None:
    message = r"runs/a: a file in it is not what a run writes \(KeyError: 'status'\)"
    with pytest.raises(ValueError, match=message), explain_bad_files(Path("runs/a")):
        raise KeyError("status")


def test_reading_tables_figures_and_pages_need_no_torch() -> None:
    # adiw itself imports torch: it is replaced by an empty package with the same folder
    code = (
        "import sys, types, pathlib; p = types.ModuleType('adiw'); "
        f"p.__path__ = [{str(ROOT / 'src' / 'adiw')!r}]; sys.modules['adiw'] = p; "
        "import adiw.reports.tables, adiw.reports.figures, adiw.reports.report_page, adiw.reports.audit; "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
