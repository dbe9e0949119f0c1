"""A weighted training with a summary after each epoch, and what ``verdicts`` and ``alarms`` have in common."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.utils.data import TensorDataset

import adiw
from adiw.reweighting.diagnostics.verdict import Comparison, Verdict, compare_losses, compare_rates
from benchmarks.gauntlet import records
from benchmarks.gauntlet.alternatives import joined
from benchmarks.gauntlet.halves import allowed, confirmed, read_halves
from benchmarks.gauntlet.task import MissingError, Sources, Split, Task
from benchmarks.gauntlet.tasks import TASKS
from benchmarks.gauntlet.training import criterion_for, fit, predictions

JOINED = "default"  # adiw without settings, the method that trains on the trusted samples as well
Key = tuple[Any, ...]  # task, method, seed and what else tells one record from another
Judge = Callable[[Key, Sources], dict[str, Any]]


@dataclass(frozen=True)
class Watched:
    """What a weighted training ends with, and the test accuracy after each epoch."""

    predicted: Tensor  # for the test samples
    weights: Tensor  # of the training samples
    alarms: list[str]  # names of the last ones
    verdict: Verdict
    test_accuracy: list[float]


def train_watched(name: str, split: Split, task: Task) -> Watched:
    """adiw with a summary after each epoch, as a user would have it."""
    network, trusted, join = split.network(), TensorDataset(split.x_trusted, split.y_trusted), name == JOINED
    train_set = adiw.Indexed(TensorDataset(split.x_train, split.y_train), trusted if join else None)
    criterion, val_set = criterion_for(split.num_classes), train_set.trusted if join else trusted
    reweight = adiw.ADIW(network, criterion, val_set, len(train_set), None if join else name, cautious=False)
    epoch, accuracies = max(1, len(train_set) // task.length.batch), []

    def look(step: int) -> None:
        if step % epoch == 0 or step == task.length.steps:
            reweight.summary()
            if split.num_classes:
                right = predictions(network, split.x_test, split.num_classes) == split.y_test
                accuracies.append(right.double().mean().item())

    x, y = joined(split) if join else (split.x_train, split.y_train)
    fit(network, x, y, reweight, task.length, look)
    verdict, found = reweight.verdict(), reweight.summary().alarms
    predicted, weights = predictions(network, split.x_test, split.num_classes), reweight.weights[: len(split.y_train)]
    return Watched(predicted, weights, [alarm.name for alarm in found], verdict, accuracies)


def compare(name: str, own: Tensor, other: Tensor, targets: Tensor, classes: int | None) -> Comparison:
    """Predictions of the method and of a reference for the same samples."""
    if classes:
        return compare_rates(name, own == targets, other == targets)
    return compare_losses(name, (own - targets).square(), (other - targets).square())


def share(part: list[Any], whole: list[Any]) -> str:
    """
    >>> share([1], [1, 2])
    '1 of 2 (50.0%)'
    """
    return f"{len(part)} of {len(whole)}" + (f" ({100 * len(part) / len(whole):.1f}%)" if whole else "")


def read(path: Path, fields: tuple[str, ...]) -> dict[Key, dict[str, Any]]:
    """The last record of each key whose task still has the recorded settings."""
    rows = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
    fresh = (row for row in rows if row["settings"]["task"] == TASKS[row["task"]].settings())
    return {tuple(row[field] for field in fields): row for row in fresh}


def parser(name: str, about: str | None, results: Path) -> argparse.ArgumentParser:
    """The options that both commands have."""
    made = argparse.ArgumentParser(f"python -m benchmarks.gauntlet.{name}", description=about)
    made.add_argument("--half", choices=("development", "confirmation"), default="development")
    made.add_argument("--task", action="append", choices=TASKS, metavar="NAME", help="this task; may be repeated")
    made.add_argument(
        "--method", action="append", choices=(JOINED, *adiw.DIVERGENCES), help="[default: default, kl, mmd]"
    )
    made.add_argument("--seeds", type=int, default=3)
    made.add_argument("--processes", type=int, default=2)
    made.add_argument("--data", type=Path, default=Sources.data)
    made.add_argument("--tables", type=Path, default=Sources.tables)
    made.add_argument("--results", type=Path, default=results)
    made.add_argument("--table", action="store_true", help="print the figures of what is recorded, and run nothing")
    return made


def chosen(arguments: argparse.Namespace) -> list[tuple[str, str, int]]:
    """Task, method and seed of everything that the arguments name, as far as the halves allow it."""
    return [
        (task, method, seed)
        for seed in range(arguments.seeds)
        for task in read_halves()[arguments.half]
        if not arguments.task or task in arguments.task
        for method in arguments.method or (JOINED, "kl", "mmd")
        if allowed(task, method, confirmed())
    ]


def measure(judge: Judge, keys: list[Key], fields: tuple[str, ...], arguments: argparse.Namespace) -> None:
    """Record what is missing, and print a line for each record."""
    if arguments.table:
        return
    found, sources = read(arguments.results, fields), Sources(arguments.data, arguments.tables)
    missing = [key for key in keys if key not in found]
    for record in _run_all(judge, missing, sources, arguments.processes, arguments.results):
        text = record if isinstance(record, str) else " ".join(str(record[field]) for field in fields)
        print(text, flush=True)


def _run_all(
    judge: Judge, keys: list[Key], sources: Sources, processes: int, path: Path
) -> Iterator[dict[str, Any] | str]:
    """Records as they come, appended to ``path``; a text for a task whose data are missing."""
    os.environ["OMP_NUM_THREADS"] = "1"  # read by the processes when they start
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for future in as_completed([pool.submit(judge, key, sources) for key in keys]):
            try:
                record = future.result()
            except MissingError as error:
                yield f"skipped: {error}"
                continue
            records.append(record, path)
            yield record
