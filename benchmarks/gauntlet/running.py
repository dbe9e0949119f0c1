"""Run what is not recorded yet, in processes of one thread each, until all is done or the budget is spent."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from benchmarks.gauntlet import alternatives, records
from benchmarks.gauntlet.halves import allowed
from benchmarks.gauntlet.methods import METHODS, fits
from benchmarks.gauntlet.records import Key, Record
from benchmarks.gauntlet.scoring import score
from benchmarks.gauntlet.task import ImageLength, MissingError, Sources, Split, Task
from benchmarks.gauntlet.tasks import TASKS
from benchmarks.gauntlet.training import own_stream
from benchmarks.record import describe, first_line

GUESS = 5.0  # seconds of a run that was never made
AFTER_UNIFORM = ("uniform", "early-stopping", "fine-tune")  # of a whole image set, after one training for all three
Unit = list[tuple[Any, ...]]  # runs that one process makes together, each with its task, its method and more
Work = Callable[[Unit, Sources], "list[Result]"]  # makes the runs of a unit


@dataclass(frozen=True)
class Skipped:
    """A task or a method that cannot run on this machine."""

    name: str
    reason: str


@dataclass(frozen=True)
class Failed:
    """A run that ended with an error. The others continue, and the same command makes it again."""

    name: str
    reason: str


Result = Record | Skipped | Failed


@lru_cache(maxsize=1)
def _splits(name: str, sources: Sources, seed: int) -> list[Split]:
    return TASKS[name].splits(sources, seed)


def run_unit(unit: Unit, sources: Sources) -> list[Result]:
    """Train and test the methods of a unit, keys of one task and seed: their records."""
    name, first, seed = unit[0]
    task = TASKS[name]
    torch.set_num_threads(1)
    try:
        splits = _splits(name, sources, seed)
    except MissingError as error:
        return [Skipped(name, str(error))]
    torch.manual_seed(seed)
    start, cpu_start = time.perf_counter(), time.process_time()
    try:
        with own_stream() if isinstance(task.length, ImageLength) else nullcontext():
            if len(unit) > 1:
                outcomes = [alternatives.after_uniform(split, task.length) for split in splits]
            else:
                outcomes = [{first: METHODS[first].run(split, task.length)} for split in splits]
    except MissingError as error:
        return [Skipped(first, str(error))]
    spent = [
        (clock - begun) / len(unit)
        for clock, begun in ((time.perf_counter(), start), (time.process_time(), cpu_start))
    ]
    return [
        {
            "task": name,
            "method": method,
            "seed": seed,
            "metrics": _rounded(score(splits, [each[method] for each in outcomes])),
            "settings": {"task": task.settings(), "method": METHODS[method].settings},
            "seconds": round(spent[0], 2),
            "cpu_seconds": round(spent[1], 2),
            "time": datetime.now(UTC).isoformat("T", "seconds"),
            **describe("adiw", "scikit-learn", "pandas", "cleanlab", device=_device(task)),
        }
        for _, method, _ in unit
    ]


def _rounded(metrics: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 5) for name, value in metrics.items()}


def _device(task: Task) -> str:
    return "cuda" if isinstance(task.length, ImageLength) and torch.cuda.is_available() else "cpu"


def units(keys: list[Key]) -> list[Unit]:
    """The runs that processes make: one each, but those ``AFTER_UNIFORM`` of a whole image set together."""
    made: list[Unit] = []
    together: dict[tuple[str, int], Unit] = {}
    for task, method, seed in keys:
        if method not in AFTER_UNIFORM or not isinstance(TASKS[task].length, ImageLength):
            made.append([(task, method, seed)])
        elif (task, seed) in together:
            together[task, seed].append((task, method, seed))
        else:
            together[task, seed] = [(task, method, seed)]
            made.append(together[task, seed])
    return made


def plan(
    tasks: list[str], methods: list[str], seeds: Iterable[int], recorded: dict[Key, Record], candidate: str | None
) -> list[Key]:
    """The runs that are missing, seed by seed; of the candidates, only ``candidate`` on the confirmation half."""
    keys = [
        (task, method, seed)
        for seed in seeds
        for task in tasks
        for method in methods
        if fits(method, TASKS[task]) and allowed(task, method, candidate)
    ]
    return [key for key in keys if key not in recorded]


def estimate(keys: list[Key], recorded: dict[Key, Record]) -> float:
    """CPU seconds of these runs, from recorded runs of the same task and method, or of any task with the method."""
    by_cell: dict[tuple[str, str], list[float]] = {}
    for (task, method, _), record in recorded.items():
        by_cell.setdefault((task, method), []).append(record["cpu_seconds"])
        by_cell.setdefault(("", method), []).append(record["cpu_seconds"])
    samples = (by_cell.get((task, method)) or by_cell.get(("", method)) or [GUESS] for task, method, _ in keys)
    return sum(statistics.mean(sample) for sample in samples)


def run_all(
    work: Work, units: list[Unit], sources: Sources, processes: int, budget: float, results: Path
) -> Iterator[Result]:
    """Results as they come; none is started after ``budget`` seconds. Records are appended before they are given."""
    os.environ["OMP_NUM_THREADS"] = "1"  # read by the processes when they start
    deadline = time.monotonic() + budget
    waiting, skipped = iter(units), set[str]()
    running: dict[Future[list[Result]], Unit] = {}
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        while True:
            for unit in waiting if time.monotonic() < deadline else ():
                if skipped & set(unit[0][:2]):
                    continue
                running[pool.submit(work, unit, sources)] = unit
                if len(running) >= processes:
                    break
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                for result in _results(future, running.pop(future)):
                    if isinstance(result, Skipped):
                        if result.name in skipped:  # reported already
                            continue
                        skipped.add(result.name)
                    elif not isinstance(result, Failed):
                        records.append(result, results)
                    yield result


def _results(future: Future[list[Result]], unit: Unit) -> list[Result]:
    try:
        return future.result()
    except BrokenProcessPool:  # no further run can start
        raise
    except Exception as error:
        return [Failed(" ".join(map(str, unit[0])), first_line(error))]
