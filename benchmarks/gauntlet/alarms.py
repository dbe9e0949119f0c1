"""``python -m benchmarks.gauntlet.alarms``: how often alarms are missed or false, on the tasks of the gauntlet.

Each method is trained with a summary after each epoch, and the alarms of the last one are judged by the test samples
and by the true labels of the training samples. An alarm is false if what it says is not so, and the network has not
collapsed and is not worse than with uniform weights.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from adiw.reweighting.diagnostics import alarms
from adiw.reweighting.diagnostics.significance import mix_distance
from benchmarks.gauntlet.methods import METHODS
from benchmarks.gauntlet.task import Sources, Split
from benchmarks.gauntlet.tasks import TASKS
from benchmarks.gauntlet.watched import Key, Watched, chosen, compare, measure, parser, read, share, train_watched
from benchmarks.record import describe

RESULTS = Path(__file__).with_name("alarms.jsonl")
FIELDS = ("task", "method", "seed")
FELL = 0.02  # of the test accuracy since its best: memorising
FAR = alarms.LARGE_SHARE / 2  # of the samples: shares that differ by more are a fault
UNIFORM = "worse than uniform"


def judge(key: Key, sources: Sources) -> dict[str, Any]:
    """Train a method and with uniform weights, and judge the alarms: their record."""
    task, (_, method, seed) = TASKS[key[0]], key
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    start, split = time.process_time(), task.splits(sources, seed)[0]
    torch.manual_seed(seed)
    watched = train_watched(method, split, task)
    torch.manual_seed(seed)
    uniform = METHODS["uniform"].run(split, task.length).predicted
    against = compare("uniform", watched.predicted, uniform, split.y_test, split.num_classes)
    figures = class_figures(watched, split) if split.num_classes else {}
    return {
        **dict(zip(FIELDS, key, strict=True)),
        "alarms": watched.alarms,
        "test": asdict(against),
        "figures": figures,
        "faults": faults(figures) | {UNIFORM: against.sign < 0},
        "settings": {"task": task.settings()},
        "cpu_seconds": round(time.process_time() - start, 2),
        **describe("adiw"),
    }


def class_figures(watched: Watched, split: Split) -> dict[str, Any]:
    """What faults are judged by: the network on the test samples, and the class mix of the weights."""
    assert split.num_classes is not None
    predicted, given = (_counts(labels, split.num_classes) for labels in (watched.predicted, split.y_test))
    right = int((watched.predicted == split.y_test).sum())
    weighted = torch.bincount(split.truth, watched.weights.double(), minlength=split.num_classes)
    mixes = {"all": _counts(split.truth, split.num_classes), "right": _counts(split.truth[~split.wrong], len(given))}
    return {
        "collapsed": bool(alarms.collapse(predicted, given, right)),
        "excess": float((predicted - given).abs().max()) / len(split.y_test),
        "fall": max(watched.test_accuracy) - watched.test_accuracy[-1],
        "mix": {name: mix_distance(mix, given).distance for name, mix in {**mixes, "weighted": weighted}.items()},
    }


def faults(figures: dict[str, Any]) -> dict[str, bool]:
    """What is wrong with a trained network and its weights, by the names of the alarms."""
    if not figures:
        return {}
    mix = figures["mix"]
    return {
        "collapsed": figures["collapsed"],
        "predicted classes": figures["excess"] > FAR,
        "memorising": figures["fall"] > FELL,
        "weights follow a class": mix["weighted"] > max(mix["all"], mix["right"]) + FAR,
    }


def is_false(name: str, record: dict[str, Any]) -> bool:
    """Whether an alarm was raised where neither what it says is so nor the network useless."""
    wrong = record["faults"]
    return not (wrong.get(name, False) or wrong[UNIFORM] or wrong.get("collapsed", False))


def summary(found: list[dict[str, Any]]) -> str:
    """Counts of missed and false alarms, as text."""
    false = [r for r in found if any(is_false(name, r) for name in r["alarms"])]
    collapses = [r for r in found if r["faults"].get("collapsed")]
    worse = [r for r in found if r["faults"][UNIFORM]]
    better = [r for r in found if r["test"]["low"] > 0]
    lines = [
        f"trainings: {len(found)}, with an alarm {sum(bool(r['alarms']) for r in found)}",
        f"collapses with their alarm: {share([r for r in collapses if 'collapsed' in r['alarms']], collapses)}",
        f"trainings with a false alarm: {share(false, found)}",
        f"worse than uniform, with an alarm: {share([r for r in worse if r['alarms']], worse)}",
        f"better than uniform, with an alarm: {share([r for r in better if r['alarms']], better)}",
        *(f"  false: {_named(r)}" for r in false),
        *(f"  better than uniform: {_named(r)}" for r in better if r["alarms"] and r not in false),
    ]
    return "\n".join(lines)


def _named(record: dict[str, Any]) -> str:
    return f"{record['task']} {record['method']} {record['seed']}: {', '.join(record['alarms'])}"


def _counts(labels: Tensor, classes: int) -> Tensor:
    return torch.bincount(labels, minlength=classes)


def main(given: list[str] | None = None) -> None:
    arguments = parser("alarms", __doc__, RESULTS).parse_args(given)
    keys: list[Key] = list(chosen(arguments))
    measure(judge, keys, FIELDS, arguments)
    found = read(arguments.results, FIELDS)
    print(summary([found[key] for key in keys if key in found]))


if __name__ == "__main__":
    main()
