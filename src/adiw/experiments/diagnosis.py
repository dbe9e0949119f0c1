"""What a run shows at its end: alarms, a collapsed network, and statistics by class and group."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from adiw.experiments.best_epoch import right_in_other_parts
from adiw.experiments.dead_run import STEPS
from adiw.experiments.splits import Splits
from adiw.experiments.training_run import TrainingRun
from adiw.reweighting.adiw import ADIW
from adiw.reweighting.diagnostics import alarms, alarms_by_class
from adiw.reweighting.diagnostics.alarms import Alarm
from adiw.reweighting.diagnostics.verdict import find_shift, make_verdict
from adiw.reweighting.summary import rows_of


def raise_epoch_alarms(training: TrainingRun) -> list[Alarm]:
    """Alarms from the weights after an epoch, of those that the run has not raised before. They are kept with it."""
    row, reweight = training.metrics[-1], training.reweight
    if not isinstance(reweight, ADIW) or training.epoch == 1:  # the weights are one in the first epoch
        return []
    return _keep(
        training, alarms.weight_alarms(row["ess"], row["weight_mean"], len(training.splits.train), 0.0, None)
    )


def raise_final_alarms(training: TrainingRun, test_predictions: Tensor) -> list[Alarm]:
    """Alarms at the end of a run, of those that it has not raised before. They are kept with it.

    Whether the network has collapsed is judged by its predictions (m,) on the test set, which is larger. Other
    predictions are those of the held-out trusted samples where there are any, else of the other trusted samples.
    """
    if len(training.loop.loader) * training.epoch < STEPS:  # after so few steps predictions are not reliable
        return []
    splits, names = training.splits, training.splits.data.classes
    evaluated = splits.trusted if splits.held_out is None else splits.held_out
    predicted = training.predict(evaluated)
    test = splits.test.y
    counts, right = alarms.class_counts(test_predictions, test), int((test_predictions == test).sum())
    found = alarms.collapse(*counts, right, names) or alarms.class_shares(predicted, evaluated.y, names)
    accuracy = [row.get("train_accuracy") for row in training.metrics]
    if len(training.held_out) == len(accuracy) and None not in accuracy:
        found += alarms.memorising(torch.stack(training.held_out), [float(value or 0) / 100 for value in accuracy])
    if isinstance(training.reweight, ADIW):
        found += _weight_alarms(training, training.reweight, evaluated.y, predicted)
    return _keep(training, found)


def _weight_alarms(
    training: TrainingRun, reweight: ADIW, evaluated: Tensor, predicted_trusted: Tensor
) -> list[Alarm]:
    """Predicted classes and labels (m,) are those of the trusted samples that were evaluated."""
    weights, others = training.weights().cpu(), ~training.splits.is_trusted
    bound = reweight.bound
    at_bound = 0.0 if bound is None else float((weights >= bound * (1 - 1e-6)).double().mean())
    row = training.metrics[-1]
    found = alarms.weight_alarms(row["ess"], row["weight_mean"], len(weights), at_bound, bound)
    if not bool(weights.isfinite().all()):
        return found
    given, groups = training.splits.train.y, training.splits.groups
    predicted = training.predict(training.splits.train)
    train, trusted = (given[others], predicted[others]), trusted_labels(training)
    right = alarms_by_class.right_labels(*train, evaluated, predicted_trusted)
    found += alarms_by_class.class_alarms(weights[others], *train, trusted, right, training.splits.data.classes)
    if groups is not None:
        strata = alarms_by_class.strata_of(given, predicted)
        found += alarms_by_class.group_alarms(weights[others], groups.train[others], strata[others], groups.names)
    return found


def trusted_labels(training: TrainingRun) -> Tensor:
    """The labels of all trusted samples, held-out ones included, (m,)."""
    splits = training.splits
    return splits.trusted.y if splits.held_out is None else torch.cat([splits.trusted.y, splits.held_out.y])


def group_tables(training: TrainingRun, predicted: Tensor) -> dict[str, list[dict[str, Any]]]:
    """The weights of the training samples and the accuracy on the test set, by class and by group.

    predicted: (m,) the predicted classes of the test set.
    """
    splits, data = training.splits, training.splits.data
    weights, right = training.weights().cpu(), predicted == splits.test.y
    found = {"classes": rows_of(weights, splits.train.y, data.classes, right, splits.test.y), "groups": []}
    if splits.groups is not None:
        found["groups"] = rows_of(weights, splits.groups.train, splits.groups.names, right, splits.groups.test)
    return found


def verdict_of_run(training: TrainingRun) -> dict[str, Any] | None:
    """The verdict without a comparison: whether there is a shift, and whether the weights remove it.

    None for methods without estimated weights. ``compare.py`` adds the comparison with other runs.
    """
    reweight = training.reweight
    if not isinstance(reweight, ADIW):
        return None
    rows = reweight.val_schedule.batch_size
    shift, after = find_shift(reweight.record, reweight.weights, trusted_labels(training), rows)
    kept, warmup = training.held_out, training.method.warmup
    right = right_in_other_parts(torch.stack(kept), warmup=warmup) if kept else None
    score = None if right is None else 100 * float(right.double().mean())
    return make_verdict(shift, after, score).as_dict()


def _keep(training: TrainingRun, found: list[Alarm]) -> list[Alarm]:
    """The alarms with new names, with the epoch, added to those of the run."""
    known = {alarm.name for alarm in training.alarms}
    new = [replace(alarm, epoch=training.epoch) for alarm in found if alarm.name not in known]
    training.alarms += new
    return new


MATRIX = 30  # classes: with more, only the most frequent confusions are kept
CONFUSIONS = 20


def class_statistics(splits: Splits, predicted: Tensor) -> dict[str, Any]:
    """The entry "predictions" of result.json, from the predicted classes (m,) of the test samples.

    Shares and accuracies are in percent, in the order of the classes. ``confusion[i][j]`` counts the test samples of
    class i that are predicted as j. The majority rate is the accuracy of always predicting the most frequent class.
    """
    names, true = list(splits.data.classes), splits.test.y.cpu()
    size = len(names)
    matrix = torch.bincount(true * size + predicted, minlength=size * size).reshape(size, size)
    count = matrix.sum(1)
    accuracy = 100 * matrix.diagonal().double() / count
    most = int(count.argmax())
    return {
        "classes": names,
        "test_samples": count.tolist(),
        "accuracy": [None if n == 0 else round(float(a), 3) for a, n in zip(accuracy, count, strict=True)],
        "predicted_share": _shares(predicted, size),
        "test_share": _shares(true, size),
        "trusted_share": _shares(splits.trusted.y.cpu(), size),
        "train_share": _shares(splits.train.y.cpu(), size),
        "majority": {"class": names[most], "rate": 100 * float(count[most]) / max(len(true), 1)},
        "confusion": matrix.tolist() if size <= MATRIX else None,
        "confusions": _most_frequent(matrix, names),
    }


def _shares(labels: Tensor, size: int) -> list[float]:
    counts = torch.bincount(labels, minlength=size).double()
    return [round(float(share), 3) for share in 100 * counts / counts.sum().clamp_min(1)]


def _most_frequent(matrix: Tensor, names: list[str]) -> list[dict[str, Any]]:
    """The most frequent confusions of two classes, the most frequent first."""
    wrong = matrix.clone().fill_diagonal_(0).flatten()
    counts, cells = wrong.topk(min(CONFUSIONS, len(wrong)))
    size = len(names)
    return [
        {"true": names[cell // size], "predicted": names[cell % size], "count": count}
        for count, cell in zip(counts.tolist(), cells.tolist(), strict=True)
        if count
    ]
