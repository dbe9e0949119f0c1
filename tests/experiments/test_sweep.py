"""Sweeps: resuming, dead and failed runs, and records."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adiw.experiments import sweep as sweep_module
from adiw.experiments.recipes import Part, Planned, Recipe, plan
from adiw.experiments.run import Interrupted
from adiw.experiments.sweep import RESULTS, TIMING, Sweep
from adiw.reports.folders import read_sweep
from adiw.reports.grid import to_text
from adiw.reports.tables import accuracy_table
from tests.experiments.small_sweeps import DEAD, FAILED, TEXT, files, finish, small, statuses, sweep

KL = Part(("KL", "Val-Only"), ("much",))


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep of all runs, one at a time and never interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    recipe = small(folder)
    finish(sweep(recipe, folder / "out"), recipe)
    return folder / "out"


def stopping(epochs: int) -> tuple[Callable[..., None], Callable[[], bool]]:
    """A progress that counts epochs, and a stop that is requested after this many."""
    seen: list[dict[str, Any]] = []
    return (lambda job, row: seen.append(row) if row["epoch"] else None), lambda: len(seen) >= epochs


def run_until(work: Sweep, recipe: Recipe, epochs: int) -> None:
    def run() -> None:
        for job, record in work.run(plan(recipe), *stopping(epochs)):
            work.write_record(job, record)

    with pytest.raises(Interrupted, match="stopped; the same command resumes"):
        run()


def test_records_have_the_settings_and_the_results(whole: Path) -> None:
    lines = [json.loads(line) for line in (whole / RESULTS).read_text().splitlines()]
    assert len(lines) == 12
    assert {(line["status"], line["side_by_side"], line["epochs"]) for line in lines} == {("done", 1, 2)}
    for line in lines:
        assert line["settings"] == json.loads((whole / line["folder"] / "config.json").read_text())
        assert line["settings"]["seed"] == line["trial"]
        assert line["accuracy"] == pytest.approx(sum(line["curves"]["accuracy"]) / 2, abs=0.01)
        assert {"versions", "hardware", "commit", "judged_on", "weights"} <= line.keys()


def test_records_alone_show_which_runs_have_ended(tmp_path: Path, whole: Path) -> None:
    """As in a clone of a repository that keeps the records and not the runs."""
    recipe, out = small(tmp_path), tmp_path / "out"
    work = sweep(recipe, out)
    kept = [json.loads(line) for line in (whole / RESULTS).read_text().splitlines()]
    lost, dead, failed = kept[0], kept[5], kept[7]
    status = {id(dead): {"status": "dead"}, id(failed): {"status": "failed"}}
    lines = [{**line, **status.get(id(line), {})} for line in kept if line is not lost]
    work.folder.path.mkdir(exist_ok=True)
    for line in lines:
        work.folder.append_row(RESULTS, line)
    again = [(job.row, job.column, job.trial) for job, _ in sweep(recipe, out).run(plan(recipe))]
    assert sorted(again) == sorted((line["row"], line["column"], line["trial"]) for line in (lost, failed))


@pytest.mark.parametrize("epochs", [1, 5])
def test_an_interrupted_sweep_resumes_to_the_same_files(tmp_path: Path, whole: Path, epochs: int) -> None:
    recipe = small(tmp_path)
    work = sweep(recipe, tmp_path / "out")
    run_until(work, recipe, epochs)
    before = statuses(work)
    assert len(before) < 12
    assert len(finish(work, recipe)) == 12 - len(before)
    assert len(set(statuses(work))) == len(statuses(work)) == 12  # no run twice
    assert files(tmp_path / "out") == files(whole)
    assert finish(work, recipe) == []


def test_a_stop_before_the_first_run_starts_none(tmp_path: Path) -> None:
    recipe = small(tmp_path)
    work = sweep(recipe, tmp_path / "out")
    with pytest.raises(Interrupted):
        list(work.run(plan(recipe), stop=lambda: True))
    assert not (tmp_path / "out" / "runs").exists()


def test_a_network_that_draws_random_numbers_is_the_same_after_other_runs(tmp_path: Path) -> None:
    text = TEXT.replace("epochs = 2", 'epochs = 2\nmodel = "tests.experiments.dropping:build"')
    recipe = small(tmp_path, text=text)
    for name, rows in (("alone", ("KL",)), ("after", ("Uniform", "KL"))):
        finish(sweep(recipe, tmp_path / name), recipe, Part(rows, ("much",), trials=1))
    alone = files(tmp_path / "alone")
    assert len(alone) == 5
    assert alone.items() < files(tmp_path / "after").items()


def test_a_run_that_ended_without_a_record_is_recorded(tmp_path: Path) -> None:
    recipe = small(tmp_path)
    work = sweep(recipe, tmp_path / "out")
    ended = list(work.run(plan(recipe, KL)))  # as in a power cut, no record is written
    assert statuses(work) == []
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "out").rglob("metrics.jsonl")}
    assert finish(work, recipe, KL) == ended
    assert len(statuses(work)) == 4
    assert {file: file.stat().st_mtime_ns for file in before} == before


def test_a_record_that_was_cut_short_is_written_again(tmp_path: Path) -> None:
    recipe = small(tmp_path)
    work = sweep(recipe, tmp_path / "out")
    finish(work, recipe, KL)
    file = tmp_path / "out" / RESULTS
    text = file.read_text()
    for cut in (1, 300):  # without its newline, and in the middle
        file.write_text(text[:-cut])
        assert len(work.records(RESULTS)) == 3
        assert [job.name for job, _ in finish(work, recipe, KL)] == ["Val-Only, much, trial 1"]
        assert file.read_text() == text


def test_dead_and_failed_runs_do_not_end_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = DEAD + FAILED.replace("missing_networks", "later_networks")  # a name that no other test imports
    recipe, part = small(tmp_path, more), Part(shifts=("much",), trials=1)
    work = sweep(recipe, tmp_path / "out")
    found = {job.row: record for job, record in finish(work, recipe, part)}
    assert {row: record["status"] for row, record in found.items()} == {
        **dict.fromkeys(("Uniform", "KL", "Val-Only"), "done"),
        "Dies": "dead",
        "Fails": "failed",
    }
    assert "of the losses are not finite" in found["Dies"]["reason"]
    assert "later_networks" in found["Fails"]["reason"]
    assert found["Fails"]["settings"]["model"] == "later_networks:build"
    assert "torch" in found["Fails"]["versions"]

    assert [job.row for job, _ in finish(work, recipe, part)] == ["Fails"]  # failed runs run again, dead runs do not
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "later_networks.py").write_text("from tests.experiments.dropping import build\n")
    assert [record["status"] for _, record in finish(work, recipe, part)] == ["done"]
    assert finish(work, recipe, part) == []
    assert [status for row, _, _, status in statuses(work) if row == "Fails"] == ["failed", "failed", "done"]


def test_an_error_within_an_epoch_is_a_failed_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = small(tmp_path)
    work, run = sweep(recipe, tmp_path / "out"), sweep_module.run

    def failing(settings: Any, *rest: Any) -> Any:
        run(settings, *rest)
        if settings.method == "adiw-kl":
            raise MemoryError("out of memory\nfree some")

    monkeypatch.setattr(sweep_module, "run", failing)
    records = {job.row: record for job, record in finish(work, recipe, Part(shifts=("much",), trials=1))}
    assert [record["status"] for record in records.values()] == ["done", "failed", "done"]
    assert records["KL"]["reason"] == "MemoryError: out of memory"


def test_cells_of_the_same_settings_share_a_run(tmp_path: Path) -> None:
    twin = '[[row]]\nlabel = "Twin"\nmethod = "uniform"\n'
    recipe, part = small(tmp_path, twin), Part(("Uniform", "Twin"), ("much",))
    work = sweep(recipe, tmp_path / "out")
    records = {job.name: record for job, record in finish(work, recipe, part)}
    assert len(list((tmp_path / "out" / "runs").iterdir())) == 2
    assert len(records) == 4
    assert records["Twin, much, trial 1"] == records["Uniform, much, trial 1"]
    assert finish(work, recipe, part) == []


def test_every_cell_is_timed_once(tmp_path: Path) -> None:
    recipe = small(tmp_path, DEAD)
    work, part = sweep(recipe, tmp_path / "out"), Part(("Uniform", "Dies"))
    timed = [(job.row, job.column, reason is None) for job, reason in work.time(plan(recipe, part))]
    assert timed == [(row, column, row != "Dies") for row in ("Uniform", "Dies") for column in ("much", "little")]
    lines = work.records(TIMING)
    assert [(line["row"], line["column"], line["epochs"]) for line in lines] == [
        ("Uniform", "much", 4),
        ("Uniform", "little", 4),
    ]
    assert all(line["seconds_per_epoch"] > 0 and {"settings", "hardware"} <= line.keys() for line in lines)
    assert [job.row for job, _ in work.time(plan(recipe, Part(("Uniform", "KL"), ("much",))))] == ["KL"]
    assert not (tmp_path / "out" / RESULTS).exists()


def test_an_interrupted_timing_starts_again(tmp_path: Path) -> None:
    recipe = small(tmp_path)
    work, planned = sweep(recipe, tmp_path / "out"), plan(recipe, Part(("Uniform",), ("much",)))
    asked = iter([False, True])
    with pytest.raises(Interrupted, match="the same command resumes"):
        list(work.time(planned, lambda: next(asked)))
    assert work.records(TIMING) == []
    assert [reason for _, reason in work.time(planned)] == [None]
    (rows,) = (tmp_path / "out" / "timed").rglob("timing.jsonl")
    assert rows.read_text().count("\n") == 4


def test_a_run_is_announced_before_its_first_epoch(tmp_path: Path) -> None:
    recipe, seen = small(tmp_path), []

    def progress(job: Planned, row: dict[str, Any]) -> None:
        seen.append((job.row, row["epoch"]))

    list(sweep(recipe, tmp_path / "out").run(plan(recipe, Part(("Uniform",), ("much",), 1)), progress))
    assert seen == [("Uniform", 0), ("Uniform", 1), ("Uniform", 2)]


def test_a_recipe_may_hold_out_count_in_steps_and_use_trusted_samples_without_weights(tmp_path: Path) -> None:
    rows = """
[[row]]
label = "Mixed"
method = "mixed"
[[row]]
label = "Fine-tune"
method = "fine-tune"
fine_tune_epochs = 2
"""
    text = TEXT.replace("epochs = 2", "steps = 25\nhold_out = 0.3")
    recipe = small(tmp_path, rows, text)
    part = Part(("Uniform", "Mixed", "Fine-tune"), ("much",), 1)
    whole, cut = (sweep(recipe, tmp_path / name) for name in ("whole", "cut"))
    records = {job.row: record for job, record in finish(whole, recipe, part)}
    assert {row: record["epochs"] for row, record in records.items()} == dict.fromkeys(records, 3)  # of nine steps
    assert {row: record["last"]["epoch"] for row, record in records.items()} == {
        "Uniform": 3,
        "Mixed": 3,
        "Fine-tune": 5,
    }
    assert all(record["held_out"] == 30 for record in records.values())
    assert records["Mixed"]["accuracy"] == records["Uniform"]["accuracy"]
    with pytest.raises(Interrupted):  # in the middle of fine-tuning
        list(cut.run(plan(recipe, Part(("Fine-tune",), ("much",), 1)), *stopping(4)))
    finish(cut, recipe, part)
    assert files(tmp_path / "whole") == files(tmp_path / "cut")
    text = " ".join(to_text(accuracy_table(read_sweep(tmp_path / "whole"))).split())
    assert "2 trials planned" in text
    assert "over the best epoch on held-out trusted samples of all finished trials" in text
    longer = plan(recipe, Part(changes={"epochs": 7}))
    assert {(job.settings.epochs, job.settings.steps) for job in longer} == {(7, None)}
