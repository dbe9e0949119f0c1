"""The runs of a sweep as tasks of an executor: several processes, a Ray cluster, SLURM by submitit, or dask."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from adiw.engine.stopping import at_intervals
from adiw.experiments.budget import Budget, seconds_of
from adiw.experiments.checked_io import read_lines
from adiw.experiments.recipes import Part, Planned, load, plan
from adiw.experiments.resume import open_sweep
from adiw.experiments.run import Interrupted, in_one_line
from adiw.experiments.sweep import RESULTS, STOPPED, OnRunEpoch, Sweep
from adiw.experiments.training_run import DEFAULT, Engine

RETRIES = 3
POLL = 0.2  # seconds between two checks of the tasks
Ended = Iterator[tuple[Planned, dict[str, Any]]]


class Pending(Protocol):
    """A task that was submitted; ``result`` raises if the worker was lost."""

    def done(self) -> bool: ...

    def result(self) -> Any: ...


class Executor(Protocol):
    """An object with the ``submit`` of ``concurrent.futures``.

    A process computes one task at a time: tasks in threads would share PyTorch's random numbers.
    """

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Pending: ...


def run_on(
    executor: Executor | None,
    sweep: Sweep,
    planned: Sequence[Planned],
    progress: OnRunEpoch = lambda job, row: None,
    stop: Callable[[], bool] = lambda: False,
    retries: int = RETRIES,
) -> Ended:
    """``sweep.run`` on an executor, or in this process if it is None; yields each run with its record when it ends.

    Cells with the same settings share one run. A run whose worker is lost is submitted again and resumes from its
    checkpoint; after ``retries`` times it is recorded as failed. The workers must see the folder of the sweep.
    """
    ended = {job for job in planned if sweep.ended(job) is not None}
    yield from sweep.run([job for job in planned if job in ended], progress, stop)  # those without a record
    waiting: dict[str, list[Planned]] = {}
    for job in planned:
        if job not in ended:
            waiting.setdefault(job.folder, []).append(job)
    work = sweep.run if executor is None else _Submitted(executor, sweep, retries).run
    for job, record in work([jobs[0] for jobs in waiting.values()], progress, stop):
        yield from ((cell, record) for cell in waiting[job.folder])


class _Submitted:
    """The tasks of a sweep on an executor."""

    def __init__(self, executor: Executor, sweep: Sweep, retries: int) -> None:
        self.executor, self.sweep, self.retries = executor, sweep, retries
        self.stop_file = sweep.folder.path.absolute() / f".stop-{uuid.uuid4().hex}"
        self.pending: list[tuple[Task, Pending]] = []
        self.sizes: dict[Planned, int] = {}  # of metrics.jsonl of each run that has not ended

    def run(self, jobs: Sequence[Planned], progress: OnRunEpoch, stop: Callable[[], bool]) -> Ended:
        self.sizes, stopped = {job: self._size(job) for job in jobs}, False
        for job in jobs:
            self._submit(Task(self.sweep, job, self.stop_file))
        while self.pending:
            if stop():
                self.stop_file.touch()
            for task, future in [entry for entry in self.pending if entry[1].done()]:
                self.pending.remove((task, future))
                record = self._record(task, future)
                stopped |= record is None and task.stopped()
                if record is not None:
                    del self.sizes[task.job]
                    yield task.job, record
            self._report(progress)
            time.sleep(POLL)
        self.stop_file.unlink(missing_ok=True)  # kept if tasks remain: they stop when they start
        if stopped:
            raise Interrupted(STOPPED)

    def _submit(self, task: Task) -> None:
        self.pending.append((task, self.executor.submit(compute, task)))

    def _record(self, task: Task, future: Pending) -> dict[str, Any] | None:
        """The record of a run; None if it was stopped, or is submitted again because its worker was lost."""
        try:
            record: dict[str, Any] | None = future.result()
            return record
        except Exception as error:
            if task.stopped():
                return None
            if task.attempt < self.retries:
                self._submit(replace(task, attempt=task.attempt + 1))
                return None
            reason = f"its worker was lost {task.attempt + 1} times, at last with {in_one_line(error)}"
            return self.sweep.failed(task.job, reason)

    def _report(self, progress: OnRunEpoch) -> None:
        """Report the last epoch of each run that has advanced since the last call."""
        for job, before in self.sizes.items():
            if (size := self._size(job)) != before:
                self.sizes[job] = size
                rows = read_lines(self._metrics(job))
                progress(job, rows[-1] if rows else {"epoch": 0})

    def _size(self, job: Planned) -> int:
        """-1 without a file: a run that has begun has an empty one."""
        file = self._metrics(job)
        return file.stat().st_size if file.exists() else -1

    def _metrics(self, job: Planned) -> Path:
        return self.sweep.folder.path / job.folder / "metrics.jsonl"


def _variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("ADIW_")}


@dataclass(frozen=True)
class Task:
    """A run for a worker.

    Attributes:
        sweep: how to compute it.
        job: the run.
        stop_file: the run stops when this file exists.
        attempt: how often a worker with this run was lost.
        folder: the current folder of the process that submits; relative paths start there.
        variables: its environment variables for adiw, such as the folder of the data sets.
    """

    sweep: Sweep
    job: Planned
    stop_file: Path
    attempt: int = 0
    folder: Path = field(default_factory=Path.cwd)
    variables: dict[str, str] = field(default_factory=_variables)

    def stopped(self) -> bool:
        return self.stop_file.exists()


def compute(task: Task) -> dict[str, Any] | None:
    """In a worker: the record of the task's run, which is resumed if it has begun; None if it was stopped."""
    if task.folder.is_dir():
        os.chdir(task.folder)
    os.environ.update(task.variables)
    if task.stopped():
        return None
    watchdog = _watchdog(task.sweep.time_limit)
    try:
        return task.sweep.compute(task.job, stop=at_intervals(task.stopped))
    except Interrupted:
        return None
    finally:
        watchdog.cancel()


def _watchdog(time_limit: float | None) -> threading.Timer:
    """Ends this process if a run hangs, since the limit is otherwise checked only between steps.

    A task that is not in the main thread shares its process with others: it is not ended.
    """
    timer = threading.Timer(2 * (time_limit or 0) + 60, os._exit, (1,))
    timer.daemon = True
    if time_limit is not None and threading.current_thread() is threading.main_thread():
        timer.start()
    return timer


def run_recipe(
    name: str,
    out: Path,
    executor: Executor | None = None,
    part: Part = Part(),  # noqa: B008 - frozen
    root: Path | None = None,
    engine: Engine = DEFAULT,
    processes: int = 1,
    time_limit: float | None = None,
    retries: int = RETRIES,
    budget: str | None = None,
) -> list[dict[str, Any]]:
    """Run a recipe on an executor, and return the records in its folder. The same call resumes.

    Args:
        name: a recipe of the library or a .toml file.
        out: folder of the sweep; the workers must see it too.
        executor: None runs in this process.
        part: the rows, columns and trials to run.
        root: folder of the data sets; None for $ADIW_DATA or ./data.
        engine: how runs are computed.
        processes: how many runs share a machine; the time table marks times of more than one.
        time_limit: longest seconds of a run.
        retries: how often a run is submitted again whose worker was lost.
        budget: a duration such as "25m"; runs in progress are then saved, and the call returns.
    """
    recipe = load(name)
    stop = (lambda: False) if budget is None else Budget(seconds_of(budget)).spent
    sweep = Sweep(open_sweep(recipe, part.changes, out), root, engine, processes, time_limit)
    try:
        for job, record in run_on(executor, sweep, plan(recipe, part), stop=stop, retries=retries):
            sweep.write_record(job, record)
        sweep.write_sums()
    except Interrupted:
        pass  # the budget is spent
    return sweep.records(RESULTS)
