"""Sweeps on executors of others: lost workers, retries, time limits, stops, and runs of another process."""

from __future__ import annotations

import fcntl
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adiw.experiments import executors, provenance
from adiw.experiments.executors import Task, compute, run_on, run_recipe
from adiw.experiments.recipes import Part, plan
from adiw.experiments.run import Interrupted
from adiw.experiments.sweep import RESULTS
from tests.experiments.small_sweeps import TEXT, files, finish, small, statuses, sweep, write_recipe

PART = Part(("Uniform", "KL"), ("much",))


class Finished:
    """What ``submit`` returns: no more than the protocol asks for."""

    def __init__(self, function: Callable[[], Any]) -> None:
        try:
            self.value, self.error = function(), None
        except RuntimeError as error:
            self.error = error

    def done(self) -> bool:
        return True

    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


class Losing:
    """An executor in this process that loses the worker of its first tasks, before or after the work is done."""

    def __init__(self, lost: int = 0, after: bool = False) -> None:
        self.lost, self.after, self.tasks = lost, after, []

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Finished:
        (task,) = arguments
        self.tasks.append(task.job.name)
        return Finished(lambda: self._call(function, *arguments))

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        lost = len(self.tasks) <= self.lost
        value = function(*arguments) if self.after or not lost else None
        if lost:
            raise RuntimeError("the node is gone\nsince yesterday")
        return value


@pytest.fixture(autouse=True)
def no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "POLL", 0.0)


@pytest.mark.parametrize("after", [False, True])
def test_lost_workers_lose_no_run_and_none_runs_twice(tmp_path: Path, after: bool) -> None:
    recipe = small(tmp_path)
    finish(sweep(recipe, tmp_path / "alone"), recipe, PART)
    executor, work = Losing(2, after), sweep(recipe, tmp_path / "out")
    finish(work, recipe, PART, executor)
    assert files(tmp_path / "out") == files(tmp_path / "alone")
    assert sorted(statuses(work)) == [(row, "much", k, "done") for row in ("KL", "Uniform") for k in (0, 1)]
    assert len(executor.tasks) == 6
    assert finish(work, recipe, PART, executor) == []


def test_a_run_whose_worker_is_lost_too_often_has_failed(tmp_path: Path) -> None:
    recipe, executor = small(tmp_path), Losing(3)
    work, part = sweep(recipe, tmp_path / "out"), Part(("Uniform",), ("much",), 1)
    ((job, record),) = run_on(executor, work, plan(recipe, part), retries=2)
    assert record["reason"] == "its worker was lost 3 times, at last with RuntimeError: the node is gone"
    assert (record["status"], record["settings"], len(executor.tasks)) == ("failed", job.settings.as_dict(), 3)
    assert [record["status"] for _, record in finish(work, recipe, part, executor)] == ["done"]


def test_cells_of_the_same_settings_share_a_task(tmp_path: Path) -> None:
    recipe = small(tmp_path, '[[row]]\nlabel = "Twin"\nmethod = "uniform"\n')
    part, executor = Part(("Uniform", "Twin"), ("much",), 1), Losing(9)
    work = sweep(recipe, tmp_path / "out")
    assert {(job.row, record["status"]) for job, record in finish(work, recipe, part, executor)} == {
        ("Uniform", "failed"),
        ("Twin", "failed"),
    }
    assert len(executor.tasks) == 4
    assert len(finish(work, recipe, part, Losing())) == 2


def test_a_run_that_takes_too_long_has_failed_and_is_resumed(tmp_path: Path) -> None:
    recipe = small(tmp_path)
    finish(sweep(recipe, tmp_path / "alone"), recipe, PART)
    short = sweep(recipe, tmp_path / "out", time_limit=1e-9)
    records = [record for _, record in finish(short, recipe, PART, Losing())]
    assert {record["status"] for record in records} == {"failed"}
    assert records[0]["reason"] == "not finished within its time limit of 1e-09 s; the same command resumes it"
    rows = [file.read_text().count("\n") for file in (tmp_path / "out").rglob("metrics.jsonl")]
    assert rows == [0] * 4  # a limit ends a run after its step
    finish(sweep(recipe, tmp_path / "out"), recipe, PART, Losing())
    assert files(tmp_path / "out") == files(tmp_path / "alone")


@pytest.mark.parametrize(("main", "limit", "started"), [(True, 5.0, True), (True, None, False), (False, 5.0, False)])
def test_a_run_that_hangs_ends_its_process(
    monkeypatch: pytest.MonkeyPatch, main: bool, limit: float | None, started: bool
) -> None:
    """Only if the task has the main thread: otherwise other tasks share the process."""
    begun: list[float] = []
    monkeypatch.setattr(threading.Timer, "start", lambda self: begun.append(self.interval))
    thread = threading.main_thread() if main else threading.Thread()
    monkeypatch.setattr(threading, "current_thread", lambda: thread)
    executors._watchdog(limit)
    assert begun == ([70.0] if started else [])


def test_a_stop_ends_the_tasks_that_have_begun_and_those_that_wait(tmp_path: Path) -> None:
    recipe = small(tmp_path)
    work, seen = sweep(recipe, tmp_path / "out"), []

    class Waiting(Losing):
        """Tasks run when they are first looked at."""

        def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
            self.tasks.append(arguments[0])
            return Later(lambda: function(*arguments))

    class Later:
        def __init__(self, function: Callable[[], Any]) -> None:
            self.function, self.looks = function, 0

        def done(self) -> bool:
            self.looks += 1
            return self.looks > 1

        def result(self) -> Any:
            return self.function()

    executor = Waiting()
    stop = iter([False, True, True])
    with pytest.raises(Interrupted, match="stopped; the same command resumes"):
        list(run_on(executor, work, plan(recipe, PART), lambda job, row: seen.append(row), lambda: next(stop)))
    assert not (tmp_path / "out" / "runs").exists()
    assert not executor.tasks[0].stop_file.exists()
    assert len(finish(work, recipe, PART, Losing())) == 4


def test_a_task_that_starts_after_its_sweep_has_ended_does_nothing(tmp_path: Path) -> None:
    """As in the queue of a cluster: the process that submitted was stopped and did not wait."""
    recipe = small(tmp_path)
    work = sweep(recipe, tmp_path / "out")
    task = Task(work, plan(recipe, PART)[0], tmp_path / ".stop")
    task.stop_file.touch()
    assert compute(task) is None
    assert not (tmp_path / "out" / "runs").exists()


def test_a_worker_has_the_folder_and_the_variables_of_the_process_that_submits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ADIW_COMMIT", "of the parent")
    recipe = small(tmp_path)
    (job,) = plan(recipe, Part(("Uniform",), ("much",), 1))
    task = Task(sweep(recipe, Path("out")), job, tmp_path / ".stop")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.delenv("ADIW_COMMIT")
    provenance.commit.cache_clear()
    record = compute(task)
    provenance.commit.cache_clear()
    assert record is not None
    assert (record["status"], record["commit"]) == ("done", "of the parent")
    assert (tmp_path / "out" / task.job.folder).is_dir()


def test_epochs_of_the_workers_are_reported(tmp_path: Path) -> None:
    recipe, seen = small(tmp_path), []
    work = sweep(recipe, tmp_path / "out")
    job = plan(recipe, PART)[0]

    class Writing(Losing):
        """Its task stays unfinished until three epochs were reported."""

        def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
            self.function = lambda: function(*arguments)
            return self

        def done(self) -> bool:
            folder = tmp_path / "out" / job.folder
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / "metrics.jsonl").open("a") as file:
                file.write(json.dumps({"epoch": len(seen)}) + "\n" if seen else "")
            return len(seen) > 2

        def result(self) -> Any:
            return self.function()

    list(run_on(Writing(), work, [job], lambda job, row: seen.append((job.row, row["epoch"]))))
    assert seen[:3] == [("Uniform", 0), ("Uniform", 1), ("Uniform", 2)]


def test_a_run_that_another_process_computes_is_not_computed_twice(tmp_path: Path) -> None:
    recipe, part = small(tmp_path), Part(("Uniform",), ("much",), 1)
    finish(sweep(recipe, tmp_path / "other"), recipe, part)
    work = sweep(recipe, tmp_path / "out")
    (job,) = plan(recipe, part)
    folder, asked = tmp_path / "out" / job.folder, []
    folder.mkdir(parents=True)
    handle = (folder / ".lock").open("w")
    fcntl.flock(handle, fcntl.LOCK_EX)

    def stop() -> bool:
        """The other process ends its run while this one waits for it."""
        asked.append(True)
        if len(asked) == 4:
            for file in (tmp_path / "other" / job.folder).iterdir():
                (folder / file.name).write_bytes(file.read_bytes())
            handle.close()
        return False

    ((_, record),) = work.run([job], stop=stop)
    assert record["status"] == "done"
    times = [out / job.folder / "timing.jsonl" for out in (tmp_path / "other", tmp_path / "out")]
    assert times[0].read_bytes() == times[1].read_bytes()


def test_a_stop_ends_the_wait_for_another_process(tmp_path: Path) -> None:
    recipe, part = small(tmp_path), Part(("Uniform",), ("much",), 1)
    work = sweep(recipe, tmp_path / "out")
    (job,) = plan(recipe, part)
    folder, asked = tmp_path / "out" / job.folder, iter([False, False])
    folder.mkdir(parents=True)
    with (folder / ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(Interrupted):
            list(work.run([job], stop=lambda: next(asked, True)))
    assert not (folder / "config.json").exists()


def test_a_recipe_runs_on_an_executor_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, executor = write_recipe(tmp_path), Losing(1)
    records = run_recipe(str(file), tmp_path / "out", executor, PART)
    assert {record["status"] for record in records} == {"done"}
    assert len(records) == 4
    assert (tmp_path / "out" / "SHA256SUMS").read_text().count(RESULTS) == 1
    assert run_recipe(str(file), tmp_path / "out", executor, PART) == records
    assert len(executor.tasks) == 5
    spent = iter([False, False, False])
    monkeypatch.setattr(executors.Budget, "spent", lambda self: next(spent, True))
    long = write_recipe(tmp_path, name="long", text=TEXT.replace("epochs = 2", "epochs = 500"))
    assert run_recipe(str(long), tmp_path / "long", part=PART, budget="1h") == []
    assert len(list((tmp_path / "long").rglob("checkpoint.pt"))) == 1
