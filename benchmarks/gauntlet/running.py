"""Run what is not recorded yet, in processes of one thread each, until all is done or the budget is spent."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path

import torch

from benchmarks.gauntlet import records
from benchmarks.gauntlet.halves import allowed
from benchmarks.gauntlet.methods import METHODS
from benchmarks.gauntlet.records import Key, Record
from benchmarks.gauntlet.scoring import score
from benchmarks.gauntlet.task import MissingError, Sources, Split
from benchmarks.gauntlet.tasks import TASKS
from benchmarks.record import describe

GUESS = 5.0  # seconds of a run that was never made


@dataclass(frozen=True)
class Skipped:
    """A task or a method that cannot run on this machine."""

    name: str
    reason: str


@lru_cache(maxsize=1)
def _splits(name: str, sources: Sources, seed: int) -> list[Split]:
    return TASKS[name].splits(sources, seed)


def run_one(key: Key, sources: Sources) -> Record | Skipped:
    """Train and test one method on one seed of a task: its record."""
    task, method = TASKS[key[0]], METHODS[key[1]]
    torch.set_num_threads(1)
    try:
        splits = _splits(key[0], sources, key[2])
    except MissingError as error:
        return Skipped(key[0], str(error))
    torch.manual_seed(key[2])
    start = time.process_time()
    try:
        outcomes = [method.run(split, task.length) for split in splits]
    except MissingError as error:
        return Skipped(key[1], str(error))
    seconds = time.process_time() - start
    return {
        "task": key[0],
        "method": key[1],
        "seed": key[2],
        "metrics": {name: round(value, 5) for name, value in score(splits, outcomes).items()},
        "settings": {"task": task.settings(), "method": method.settings},
        "cpu_seconds": round(seconds, 2),
        "time": datetime.now(UTC).isoformat("T", "seconds"),
        **describe("adiw", "scikit-learn", "pandas", "cleanlab"),
    }


def plan(
    tasks: list[str], methods: list[str], seeds: int, recorded: dict[Key, Record], candidate: str | None
) -> list[Key]:
    """The runs that are missing, seed by seed; of the candidates, only ``candidate`` on the confirmation half."""
    keys = [
        (task, method, seed)
        for seed in range(seeds)
        for task in tasks
        for method in methods
        if METHODS[method].fits(TASKS[task]) and allowed(task, method, candidate)
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
    keys: list[Key], sources: Sources, processes: int, budget: float, results: Path
) -> Iterator[Record | Skipped]:
    """Results as they come; none is started after ``budget`` seconds. Records are appended before they are given."""
    os.environ["OMP_NUM_THREADS"] = "1"  # read by the processes when they start
    deadline = time.monotonic() + budget
    waiting, skipped = iter(keys), set[str]()
    running: set[Future[Record | Skipped]] = set()
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        while True:
            for key in waiting if time.monotonic() < deadline else ():
                if skipped & set(key[:2]):
                    continue
                running.add(pool.submit(run_one, key, sources))
                if len(running) >= processes:
                    break
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                result = future.result()
                if not isinstance(result, Skipped):
                    records.append(result, results)
                elif result.name in skipped:  # reported already
                    continue
                else:
                    skipped.add(result.name)
                yield result
