"""``python -m benchmarks.audit``: how well wrong labels are found on the tasks of the gauntlet, beside cleanlab.

One line of JSON for each task, method and seed in benchmarks/results/audit.jsonl; what is recorded is not run again,
unless the settings of its task or of the default have changed: then it is removed.
cleanlab gets out-of-fold probabilities (or predictions) of the same network. The choices of the audit were made on
the development half; the confirmation half is run once.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold
from torch.utils.data import TensorDataset

import adiw
from adiw.label_audit import ranking_quality
from benchmarks.gauntlet import records
from benchmarks.gauntlet.alternatives import FOLDS, joined, out_of_fold, train_uniform
from benchmarks.gauntlet.command import add_options, chosen_tasks, make
from benchmarks.gauntlet.methods import METHODS as TRAININGS
from benchmarks.gauntlet.running import Result, Skipped, Unit
from benchmarks.gauntlet.task import Length, MissingError, Sources, Split
from benchmarks.gauntlet.tasks import TASKS
from benchmarks.gauntlet.training import criterion_for, fit, outputs_of
from benchmarks.record import RESULTS, describe

Scores = tuple[np.ndarray, dict[str, float]]  # (n,) larger for suspicious samples, and further figures
FIGURES = ("auroc", "precision")


def audit(split: Split, length: Length) -> Scores:
    """adiw without settings, trained on training and trusted samples, then ``adiw.audit``."""
    train_set = adiw.Indexed(
        TensorDataset(split.x_train, split.y_train), TensorDataset(split.x_trusted, split.y_trusted)
    )
    network = split.network()
    reweight = adiw.ADIW(network, criterion_for(split.num_classes), train_set.trusted, len(train_set))
    fit(network, *joined(split), reweight, length)
    found = adiw.audit(reweight, train_set)
    losses, wrong, cutoff = found.losses[: len(split.y_train)], split.wrong.numpy(), found.cutoff
    if cutoff is None:
        return losses, {"cutoff": 0}
    actual = wrong[found.order[: cutoff.number]].mean()
    figures = {"estimated_wrong": cutoff.wrong / len(wrong), "expected_precision": cutoff.precision}
    figures["least_precision"] = cutoff.least
    return losses, {"cutoff": cutoff.number / len(wrong), **figures, "cutoff_precision": float(actual)}


def cleanlab(split: Split, length: Length) -> Scores:
    """cleanlab's label quality from out-of-fold probabilities, or predictions of a regression."""
    try:
        from cleanlab.rank import get_label_quality_scores
        from cleanlab.regression.rank import get_label_quality_scores as get_target_quality_scores
    except ImportError as error:
        raise MissingError("cleanlab is not installed: pip install cleanlab") from error
    given = split.y_train.numpy()
    if split.num_classes is not None:
        return -get_label_quality_scores(given, out_of_fold(split, length).double().numpy()), {}
    predicted = np.zeros(len(given))
    for rest, held_out in KFold(FOLDS, shuffle=True, random_state=int(torch.randint(2**31, ()))).split(given):
        network = train_uniform(split, length, split.x_train[rest], split.y_train[rest])
        predicted[held_out] = outputs_of(network, split.x_train[held_out])[:, 0].numpy()
    return -get_target_quality_scores(given, predicted), {}


def linear_trusted(split: Split, length: Length) -> Scores:
    """The loss of a linear model that was fitted on the trusted samples alone."""
    given, x = split.y_train.numpy(), split.x_train.numpy()
    if split.num_classes is None:
        model = Ridge().fit(split.x_trusted.numpy(), split.y_trusted.numpy())
        return (model.predict(x) - given) ** 2, {}
    model = LogisticRegression(max_iter=1000).fit(split.x_trusted.numpy(), split.y_trusted.numpy())
    chances = np.zeros((len(given), split.num_classes))
    chances[:, model.classes_] = model.predict_proba(x)
    return -chances[np.arange(len(given)), given], {}


METHODS: dict[str, Callable[[Split, Length], Scores]] = {
    "adiw": audit,
    "cleanlab": cleanlab,
    "linear-trusted": linear_trusted,
}


def method_settings(name: str) -> str:
    """What is recorded of a method: those of adiw's default, which may change."""
    return TRAININGS["default"].settings if name == "adiw" else ""


def is_fresh(record: records.Record) -> bool:
    """Whether the task and the method of a record still have its settings."""
    task = TASKS.get(record["task"])
    own = task and {"task": task.settings(), "method": method_settings(record["method"])}
    return bool(record["settings"] == own)


def measure(unit: Unit, sources: Sources) -> list[Result]:
    """The record of one run, the mean over the splits of the seed; none where no label is wrong."""
    (name, method, seed), *_ = unit
    task = TASKS[name]
    torch.set_num_threads(1)
    try:
        splits = task.splits(sources, seed)
    except MissingError as error:
        return [Skipped(name, str(error))]
    if not splits[0].wrong.any():
        return []
    torch.manual_seed(seed)
    start, found = time.process_time(), []
    for split in splits:
        try:
            scores, figures = METHODS[method](split, task.length)
        except MissingError as error:
            return [Skipped(method, str(error))]
        quality = ranking_quality(scores, split.wrong.numpy())
        found.append(dict(zip(FIGURES, quality, strict=True)) | figures)
    names = dict.fromkeys(name for figures in found for name in figures)
    return [
        {
            "task": name,
            "method": method,
            "seed": seed,
            "metrics": {n: round(float(np.mean([f[n] for f in found if n in f])), 5) for n in names},
            "settings": {"task": task.settings(), "method": method_settings(method)},
            "cpu_seconds": round(time.process_time() - start, 2),
            "time": datetime.now(UTC).isoformat("T", "seconds"),
            **describe("adiw", "scikit-learn", "cleanlab"),
        }
    ]


def table(found: dict[records.Key, dict[str, Any]], tasks: list[str]) -> str:
    """A line for each task: AUROC and precision of each method, and the cut-off of the audit."""
    tasks = [task for task in tasks if (task, "adiw", 0) in found]
    lines = ["| task | seeds | " + " | ".join(METHODS) + " | wrong, estimated | precision, expected, least |"]
    lines.append("| --- | ---: |" + " ---: |" * (len(METHODS) + 2))
    for task in tasks:
        seeds = [seed for name, method, seed in found if (name, method) == (task, "adiw")]
        cells = [_cell(found, [task], method) for method in METHODS]
        mean = {
            n: _mean(found, [task], "adiw", n)
            for n in ("estimated_wrong", "cutoff_precision", "expected_precision", "least_precision")
        }
        estimated, *precisions = (f"{value:.0%}" for value in mean.values())
        cut = [estimated, ", ".join(precisions)]
        cut = ["no cut-off", "-"] if np.isnan(mean["estimated_wrong"]) else cut
        lines.append(f"| {task} | {len(seeds)} | " + " | ".join(cells + cut) + " |")
    lines.append("| mean | | " + " | ".join(_cell(found, tasks, method) for method in METHODS) + " | | |")
    return "\n".join(lines)


def _cell(found: dict[records.Key, dict[str, Any]], tasks: list[str], method: str) -> str:
    area, precision = (_mean(found, tasks, method, name) for name in FIGURES)
    return f"{area:.3f}, {precision:.1%}"


def _mean(found: dict[records.Key, dict[str, Any]], tasks: list[str], method: str, name: str) -> float:
    """The mean over tasks of the mean over seeds."""
    by_task = [
        [r["metrics"][name] for (t, m, _), r in found.items() if (t, m) == (task, method) and name in r["metrics"]]
        for task in tasks
    ]
    means = [float(np.mean(values)) for values in by_task if values]
    return float(np.mean(means)) if means else float("nan")


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.audit", description=__doc__)
    parser.add_argument("--method", action="append", choices=METHODS, help="[default: all]")
    parser.add_argument("--seeds", type=int, default=3, help="seeds 0 to N-1 [default: 3]")
    add_options(parser, RESULTS / "audit.jsonl")
    arguments = parser.parse_args(given)
    tasks = chosen_tasks(arguments.half, arguments.task)
    if not arguments.table:
        records.keep(arguments.results, is_fresh)
    found = records.read(TASKS, arguments.results)
    units: list[Unit] = [
        [(task, method, seed)]
        for seed in range(arguments.seeds)
        for task in tasks
        for method in arguments.method or METHODS
        if (task, method, seed) not in found
    ]
    failed = 0 if arguments.table else make(measure, units, arguments, line)
    print(table(records.read(TASKS, arguments.results), tasks))
    if failed:
        raise SystemExit(f"{failed} runs failed: the same command makes them again")


def line(record: records.Record) -> str:
    """What is printed of a record."""
    return f"{record['task']} {record['method']} {record['seed']}: {record['metrics']}"


if __name__ == "__main__":
    main()
