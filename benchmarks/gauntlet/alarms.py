"""How often alarms are missed or false, by the records of ``verdicts``.

The alarms of the last epoch are judged by the test samples and by the true labels of the training samples. An alarm
is false if what it says is not so, and the network has not collapsed and is not worse than with uniform weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from adiw.reweighting.diagnostics import alarms
from adiw.reweighting.diagnostics.significance import mix_distance
from benchmarks.gauntlet.records import Record
from benchmarks.gauntlet.task import Split

if TYPE_CHECKING:
    from benchmarks.gauntlet.watched import Watched

FELL = 0.02  # of the test accuracy since its best: memorising
FAR = alarms.LARGE_SHARE / 2  # of the samples: shares that differ by more are a fault
UNIFORM = "worse than uniform"


def class_figures(watched: Watched, split: Split) -> dict[str, Any]:
    """What faults are judged by: the network on the test samples, and the class mix of the weights."""
    assert split.num_classes is not None
    predicted, given = (_counts(labels, split.num_classes) for labels in (watched.predicted, split.y_test))
    right = int((watched.predicted == split.y_test).sum())
    weighted = torch.bincount(split.truth, watched.weights.double(), minlength=split.num_classes)
    mixes = {"all": _counts(split.truth, split.num_classes), "right": _counts(split.truth[~split.wrong], len(given))}
    return {
        "collapsed": bool(alarms.collapse(predicted, given, right)),
        "excess": round(float((predicted - given).abs().max()) / len(split.y_test), 5),
        "fall": round(max(watched.test_accuracy) - watched.test_accuracy[-1], 5),
        "mix": {
            name: round(mix_distance(mix, given).distance, 5) for name, mix in {**mixes, "weighted": weighted}.items()
        },
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


def is_false(name: str, record: Record) -> bool:
    """Whether an alarm was raised where neither what it says is so nor the network useless."""
    wrong = record["faults"]
    return not (wrong.get(name, False) or wrong[UNIFORM] or wrong.get("collapsed", False))


def summary(found: list[Record]) -> str:
    """Counts of missed and false alarms, as text."""
    false = [r for r in found if any(is_false(name, r) for name in r["alarms"])]
    collapses = [r for r in found if r["faults"].get("collapsed")]
    worse = [r for r in found if r["faults"][UNIFORM]]
    better = [r for r in found if r["test"][0]["low"] > 0]
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


def share(part: list[Any], whole: list[Any]) -> str:
    """
    >>> share([1], [1, 2])
    '1 of 2 (50.0%)'
    """
    return f"{len(part)} of {len(whole)}" + (f" ({100 * len(part) / len(whole):.1f}%)" if whole else "")


def _named(record: Record) -> str:
    key = " ".join(str(record[field]) for field in ("task", "method", "seed", "fold"))
    return f"{key}: {', '.join(record['alarms'])}"


def _counts(labels: Tensor, classes: int) -> Tensor:
    return torch.bincount(labels, minlength=classes)
