"""A weighted training with a summary after each epoch, and what its verdict and its alarms are judged by."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

import adiw
from adiw.experiments.settings import HOLD_OUT
from adiw.reweighting.diagnostics.verdict import Comparison, compare_losses, compare_rates
from benchmarks.gauntlet import alarms
from benchmarks.gauntlet.alternatives import after_uniform, joined
from benchmarks.gauntlet.methods import METHODS
from benchmarks.gauntlet.records import Record
from benchmarks.gauntlet.running import Result, Skipped, Unit
from benchmarks.gauntlet.task import MissingError, Sources, Split, Task
from benchmarks.gauntlet.tasks import TASKS
from benchmarks.gauntlet.training import criterion_for, fit, predictions
from benchmarks.record import describe

JOINED = "default"  # adiw without settings, the method that trains on the trusted samples as well
REFERENCES = ("uniform", "fine-tune", "trusted-only", "mixed")  # the first is what one would do without weights
ENDS = ("difference", "low", "high")  # of a comparison: its difference and its interval
FIELDS = ("task", "method", "seed", "folds", "fold")  # what tells one record from another


@dataclass(frozen=True)
class Watched:
    """What a weighted training ends with, and the test accuracy after each epoch."""

    predicted: Tensor  # for the test samples
    weights: Tensor  # of the training samples
    alarms: list[str]  # names of those of the last summary and of the verdict on held-out samples
    test_accuracy: list[float]


def train_watched(name: str, split: Split, task: Task, count: int) -> Watched:
    """adiw with a summary after each epoch, and a verdict on ``count`` held-out samples, as a user would have it."""
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
    held_out = TensorDataset(split.x_test[:count], split.y_test[:count])
    found = {alarm.name: None for alarm in (*reweight.summary().alarms, *reweight.verdict(held_out=held_out).alarms)}
    predicted, weights = predictions(network, split.x_test, split.num_classes), reweight.weights[: len(split.y_train)]
    return Watched(predicted, weights, list(found), accuracies)


def method_settings(name: str) -> str:
    """What is recorded of a method: a record with other settings is made again.

    >>> method_settings("mmd").endswith("without caution")
    True
    """
    return METHODS[name].settings if name == JOINED else f"{adiw.DIVERGENCES[name]()!r}, without caution"


def hold_out(split: Split, fold: int, folds: int) -> tuple[Split, int]:
    """The split without a part of its trusted samples, which come first among the test samples; their number.

    One of several folds, or the share that the command holds out where there is one fold only.
    """
    m = len(split.y_trusted)
    order = torch.randperm(m, generator=torch.Generator().manual_seed(0))
    out = torch.zeros(m, dtype=torch.bool)
    out[order[: round(HOLD_OUT * m)] if folds == 1 else order[fold::folds]] = True
    x, y = split.x_trusted, split.y_trusted
    test = {"x_test": torch.cat([x[out], split.x_test]), "y_test": torch.cat([y[out], split.y_test])}
    return replace(split, x_trusted=x[~out], y_trusted=y[~out], focus=None, **test), int(out.sum())


def reference_predictions(split: Split, task: Task, seed: int) -> dict[str, Tensor]:
    """Predictions of the references for the test samples, each trained as if it were alone."""
    torch.manual_seed(seed)
    found = {name: outcome.predicted for name, outcome in after_uniform(split, task.length).items()}
    for name in REFERENCES:
        if name not in found:
            torch.manual_seed(seed)
            found[name] = METHODS[name].run(split, task.length).predicted
    return {name: found[name] for name in REFERENCES}


def judge(unit: Unit, sources: Sources) -> list[Result]:
    """The records of some methods on one fold of a task and seed, beside references that are trained once."""
    name, _, seed, folds, fold = unit[0]
    task = TASKS[name]
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    try:
        whole = task.splits(sources, seed)[0]
    except MissingError as error:
        return [Skipped(name, str(error))]
    start = time.process_time()
    split, count = hold_out(whole, fold, folds)
    references = reference_predictions(split, task, seed)
    spent = (time.process_time() - start) / len(unit)
    made: list[Result] = []
    for key in unit:
        start = time.process_time()
        torch.manual_seed(seed)
        watched = train_watched(key[1], split, task, count)
        record = judged(watched, references, split, count)
        seconds = {"cpu_seconds": round(spent + time.process_time() - start, 2)}
        own = {"method": method_settings(key[1]), "references": REFERENCES}
        settings = {"settings": {"task": task.settings(), **own}}
        made.append(dict(zip(FIELDS, key, strict=True)) | record | settings | seconds | describe("adiw"))
    return made


def judged(watched: Watched, references: dict[str, Tensor], split: Split, count: int) -> Record:
    """How a training did on ``count`` held-out samples and on the test samples after them, beside references."""
    test = replace(split, x_test=split.x_test[count:], y_test=split.y_test[count:])
    own, targets, classes = watched.predicted, split.y_test, split.num_classes
    compared = compare(own[count:], {n: p[count:] for n, p in references.items()}, test.y_test, classes)
    figures = alarms.class_figures(replace(watched, predicted=own[count:]), test) if classes else {}
    return {
        "held_out": {
            n: outcomes(p[:count], targets[:count], classes) for n, p in {"adiw": own, **references}.items()
        },
        "test": [row_of(each) for each in compared],
        "alarms": watched.alarms,
        "figures": figures,
        "faults": alarms.faults(figures) | {alarms.UNIFORM: compared[0].sign < 0},
    }


def row_of(comparison: Comparison) -> dict[str, float]:
    """What is recorded of a comparison."""
    return {end: round(getattr(comparison, end), 5) for end in ENDS}


def outcomes(predicted: Tensor, targets: Tensor, classes: int | None) -> str | list[float]:
    """A digit for each sample, 1 if its prediction is right; for a regression its squared errors.

    >>> outcomes(torch.tensor([1, 0, 2]), torch.tensor([1, 1, 2]), 3)
    '101'
    """
    if classes:
        return "".join(str(int(right)) for right in predicted == targets)
    return [float(f"{error:.6g}") for error in (predicted - targets).square().tolist()]


def compare(own: Tensor, others: dict[str, Tensor], targets: Tensor, classes: int | None) -> list[Comparison]:
    """Predictions of the method and of references for the same samples."""
    if classes:
        return compare_rates(own == targets, {name: other == targets for name, other in others.items()})
    errors = {name: (other - targets).square() for name, other in others.items()}
    return compare_losses((own - targets).square(), errors)
