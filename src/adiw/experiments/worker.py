"""What a worker of an executor does: compute runs of a sweep, on its own machine or another."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adiw.engine.stopping import at_intervals
from adiw.experiments.plan import Planned
from adiw.experiments.run import Interrupted
from adiw.experiments.sweep import Sweep


def _variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("ADIW_")}


@dataclass(frozen=True)
class Task:
    """Runs for one worker.

    Attributes:
        sweep: how to compute them.
        jobs: the runs, which share a process.
        stop_file: runs stop when this file exists.
        attempt: how often workers with these runs were lost.
        folder: the current folder of the process that submits; relative paths start there.
        variables: its environment variables for adiw, such as the folder of the data sets.
    """

    sweep: Sweep
    jobs: tuple[Planned, ...]
    stop_file: Path
    attempt: int = 0
    folder: Path = field(default_factory=Path.cwd)
    variables: dict[str, str] = field(default_factory=_variables)

    def stopped(self) -> bool:
        return self.stop_file.exists()


@dataclass(frozen=True)
class Outcome:
    """The records of the runs that have ended; ``stopped`` if others have not."""

    ended: list[tuple[Planned, dict[str, Any]]]
    stopped: bool


def compute(task: Task) -> Outcome:
    """In a worker: compute the runs of a task. A run that has begun is resumed; one that has ended is only read."""
    if task.folder.is_dir():
        os.chdir(task.folder)
    os.environ.update(task.variables)
    ended: list[tuple[Planned, dict[str, Any]]] = []
    if task.stopped():
        return Outcome(ended, stopped=True)
    watchdog = _watchdog(task.sweep.time_limit)
    try:
        for job, record in task.sweep.run(task.jobs, stop=at_intervals(task.stopped)):
            ended.append((job, record))
    except Interrupted:
        return Outcome(ended, stopped=True)
    finally:
        watchdog.cancel()
    return Outcome(ended, stopped=False)


def _watchdog(time_limit: float | None) -> threading.Timer:
    """Ends this process if a run hangs, since the limit is otherwise checked only between steps.

    A task that is not in the main thread shares its process with others: it is not ended.
    """
    timer = threading.Timer(2 * (time_limit or 0) + 60, os._exit, (1,))
    timer.daemon = True
    if time_limit is not None and threading.current_thread() is threading.main_thread():
        timer.start()
    return timer
