"""Alarms: figures of a training that show that something is wrong, each with what to change.

Every function returns a list of alarms, empty where nothing is wrong. Tests of proportions have the level ``LEVEL``,
so that an ordinary run rarely raises one, and a difference must also be large enough to matter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from adiw.reweighting.diagnostics.significance import binomial_tail, paired_means, sign_test

LEVEL = 0.001  # chance that a test raises an alarm where nothing is wrong
ONE_CLASS = 0.95  # share of one predicted class from which a network has collapsed
NOT_EXCLUDED = 0.05  # least p-value of this share: so few predictions may be of a network that has collapsed
MIX_LEVEL = 0.01  # chance that labels of which one class has ``ONE_CLASS`` seem to have less of it
LARGE_SHARE = 0.1  # of the samples: smaller differences of class shares are not reported
SMALL_FALL = 0.02  # of the accuracy: a smaller fall is not reported
FALL_LEVEL = 0.005  # of the test of this fall, which needs the training accuracy to rise as well
PARTS = 5  # of a training that are compared: fewer summaries raise no alarm
LEAST_ESS = 0.05  # share of the training set: with less, a few samples have all the weight
MEAN_RANGE = (0.1, 10.0)  # of the weights, whose mean should be near one
AFTER_COLLAPSE = (
    "lower the learning rate or train for longer; if a training without weights does not collapse, leave divergence "
    "unset for the default, or lower step_size"
)


@dataclass(frozen=True)
class Alarm:
    """Something that is wrong, and what to change. ``epoch`` is None in a loop that does not count epochs."""

    name: str
    message: str
    epoch: int | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.message}"


def weight_alarms(ess: float, mean: float, num_train: int, at_bound: float, bound: float | None) -> list[Alarm]:
    """Alarms from statistics of the weights.

    Args:
        ess, mean: effective sample size and mean of the weights.
        at_bound: share of the samples at the largest allowed weight, ``bound``; None without one.

    >>> [alarm.name for alarm in weight_alarms(30.0, 1.1, 1000, 0.0, None)]
    ['effective sample size']
    """
    if not (math.isfinite(mean) and MEAN_RANGE[0] <= mean <= MEAN_RANGE[1]):
        return [
            Alarm(
                "diverging weights",
                f"the mean weight is {mean:.3g}, and should be near one: the estimation diverges. Lower step_size, "
                'choose another divergence such as "kl", or leave divergence unset for the default',
            )
        ]
    found = []
    if ess < LEAST_ESS * num_train:
        found.append(
            Alarm(
                "effective sample size",
                f"the weights are worth {ess:.0f} of {num_train} samples: the model trains on a few samples only. "
                "Set min_ess=0.2 or cap=5, or lower step_size",
            )
        )
    if bound is not None and at_bound * bound > 0.5 * mean:
        found.append(
            Alarm(
                "weights at their bound",
                f"{at_bound:.0%} of the samples have the largest allowed weight, {bound:g}, and hold more than half "
                "of all weight: the bound decides the weights. Raise cap (or upper of the divergence), or lower "
                "step_size",
            )
        )
    return found


def objective_alarms(objective: float) -> list[Alarm]:
    """An alarm if the divergence between the batches is not a finite number.

    >>> objective_alarms(0.2)
    []
    """
    if math.isfinite(objective):
        return []
    return [
        Alarm(
            "diverging divergence",
            f"the divergence, the distance of the last batch from the trusted one, is {objective}: lower step_size "
            "or the learning rate, and check the losses for values that are not finite",
        )
    ]


def prediction_alarms(predicted: Tensor, labels: Tensor, names: Sequence[str] | None = None) -> list[Alarm]:
    """An alarm from predicted classes (m,) and labels (m,) of trusted samples: a collapse, or shares of classes."""
    right = int((predicted == labels).sum())
    return collapse(*class_counts(predicted, labels), right, names) or class_shares(predicted, labels, names)


def class_shares(predicted: Tensor, labels: Tensor, names: Sequence[str] | None = None) -> list[Alarm]:
    """An alarm if a class is predicted (m,) more or less often than trusted labels (m,) have it.

    For each class the samples that only have the prediction and those that only have the label are compared, by an
    exact sign test.
    """
    counts, given = class_counts(predicted, labels)
    classes = len(counts)
    only_predicted = torch.bincount(predicted[predicted != labels].long(), minlength=classes)
    only_given = torch.bincount(labels[predicted != labels].long(), minlength=classes)
    excess = (only_predicted - only_given).abs()
    worst = int(excess.argmax())
    p_value = sign_test(int(only_predicted[worst]), int(only_given[worst]))
    if p_value * classes > LEVEL or int(excess[worst]) < LARGE_SHARE * len(labels):
        return []
    return [
        Alarm(
            "predicted classes",
            f"class {name_of(worst, names)} is predicted for {int(counts[worst])} of {len(labels)} trusted samples, "
            f"but {int(given[worst])} of them are of this class. Train longer or with another learning rate; if it "
            "stays, add trusted samples of the classes that are predicted too rarely",
        )
    ]


def collapse(predicted: Tensor, given: Tensor, right: int, names: Sequence[str] | None = None) -> list[Alarm]:
    """An alarm if a network has collapsed, from the numbers of predictions and labels of each class (C,).

    It predicts one class nearly always, or is worse than the most frequent class: ``right`` of the samples are
    predicted correctly. A class that most labels have is predicted as often without any fault: the labels must have
    the other classes significantly more often, and twice as often, and more often than 1 - ``ONE_CLASS``.

    >>> print(collapse(torch.tensor([98, 2]), torch.tensor([60, 40]), 61)[0].message[:58])
    class 0 is predicted for 98% of the samples, but 60% of th
    """
    total, top, most = int(given.sum()), int(predicted.argmax()), int(given.argmax())
    share, majority = float(predicted[top]) / total, float(given[most]) / total
    other_predicted, other_given = (total - int(counts[top]) for counts in (predicted, given))
    often = binomial_tail(other_predicted, total, 1 - ONE_CLASS) >= NOT_EXCLUDED
    rare = binomial_tail(other_given, total, max(1 - share, 1 / total)) < LEVEL and other_given > 2 * other_predicted
    if often and rare and has_other_classes(other_given, total):
        labelled = f"{float(given[top]) / total:.0%} of them have this label"
        what = f"class {name_of(top, names)} is predicted for {share:.0%} of the samples, but {labelled}"
        return [Alarm("collapsed", f"{what}: {AFTER_COLLAPSE}")]
    if right < majority * total and binomial_tail(total - right, total, 1 - majority) < LEVEL:
        what = f"the accuracy, {right / total:.1%}, is below the {majority:.1%} of always predicting class"
        return [Alarm("collapsed", f"{what} {name_of(most, names)}: {AFTER_COLLAPSE}")]
    return []


def has_other_classes(others: int, total: int) -> bool:
    """Whether ``others`` of the labels show that one class has less than ``ONE_CLASS`` of them.

    >>> has_other_classes(14, 200), has_other_classes(20, 200)
    (False, True)
    """
    return binomial_tail(others, total, 1 - ONE_CLASS) < MIX_LEVEL


def class_counts(predicted: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The numbers of predictions and of labels of each class, (C,) each."""
    size = 1 + int(max(predicted.max(), labels.max()))
    counts, given = (torch.bincount(x.long(), minlength=size) for x in (predicted, labels))
    return counts, given


def memorising(right: Tensor, train_accuracy: Sequence[float]) -> list[Alarm]:
    """An alarm if the accuracy on trusted samples falls while that on training samples rises.

    Args:
        right: (k, m) booleans, which of m trusted samples were predicted correctly at each of k summaries.
        train_accuracy: (k,) shares of the training samples whose given label is predicted.

    The summaries are divided into ``PARTS`` parts; the best is compared with the last, sample by sample.
    """
    if len(right) < PARTS:
        return []
    parts = torch.stack([part.double().mean(0) for part in right.tensor_split(PARTS)])
    accuracy, best = parts.mean(1), int(parts.mean(1).argmax())
    training = [float(part.mean()) for part in torch.tensor(train_accuracy).double().tensor_split(PARTS)]
    fall = paired_means(parts[best] - parts[-1], 1 - 2 * FALL_LEVEL)
    if fall.low <= 0 or fall.difference < SMALL_FALL or training[-1] <= training[best]:
        return []
    rise = f"{training[best]:.1%} to {training[-1]:.1%}"
    return [
        Alarm(
            "memorising",
            f"the accuracy on trusted samples fell from {float(accuracy[best]):.1%} to {float(accuracy[-1]):.1%} "
            f"while that on training samples rose from {rise}: wrong labels are memorised. Train for fewer epochs or "
            "keep the epoch that is best on held-out trusted samples, and train on the trusted samples as well "
            "(adiw.Indexed(train_set, trusted))",
        )
    ]


def name_of(number: int, names: Sequence[str] | None) -> str:
    return str(number) if names is None else str(names[number])
