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

from adiw.reweighting.significance import binomial_tail, mix_distance, paired_means, sign_test

LEVEL = 0.001  # chance that a test raises an alarm where nothing is wrong
ONE_CLASS = 0.95  # share of one predicted class from which a network has collapsed
LARGE_SHARE = 0.1  # of the samples: smaller differences of class shares are not reported
SMALL_FALL = 0.02  # of the accuracy: a smaller fall is not reported
FALL_LEVEL = 0.005  # of the test of this fall, which needs the training accuracy to rise as well
LOOKS = 5  # least number of looks at the trusted accuracy, which are then compared in as many parts
LEAST_ESS = 0.05  # share of the training set: with less, a few samples have all the weight
MEAN_RANGE = (0.1, 10.0)  # of the weights, whose mean should be near one
LARGEST_RATIO = 2.0  # of the mean weight of a group to that of samples with the same classes and errors
LEAST_GROUP = 20  # samples


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
            f"the divergence of the last batch is {objective}: lower step_size or the learning rate, and check the "
            "losses for values that are not finite",
        )
    ]


def prediction_alarms(predicted: Tensor, labels: Tensor, names: Sequence[str] | None = None) -> list[Alarm]:
    """Alarms from the predicted classes (m,) and the labels (m,) of trusted samples.

    A collapsed network predicts one class nearly always, or is worse than the most frequent class. Otherwise the
    number of predictions of each class is compared with its number of labels, by an exact sign test.
    """
    classes = 1 + int(max(predicted.max(), labels.max()))
    counts, given = (torch.bincount(x.long(), minlength=classes) for x in (predicted, labels))
    found = collapse(counts, given, int((predicted == labels).sum()), names)
    if found:
        return found
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
            f"class {_name(worst, names)} is predicted for {int(counts[worst])} of {len(labels)} trusted samples, "
            f"and {int(given[worst])} of them are of this class. Train longer or with another learning rate; if it "
            "stays, add trusted samples of the classes that are predicted too rarely",
        )
    ]


def collapse(predicted: Tensor, given: Tensor, right: int, names: Sequence[str] | None = None) -> list[Alarm]:
    """An alarm if a network has collapsed, from the numbers of predictions and labels of each class (C,).

    ``right`` of the samples are predicted correctly. A class that most labels have is predicted as often without
    any fault: the labels must have it significantly less often.

    >>> print(collapse(torch.tensor([98, 2]), torch.tensor([60, 40]), 61)[0].message[:58])
    class 0 is predicted for 98% of the samples, and 60% of th
    """
    total, top, most = int(given.sum()), int(predicted.argmax()), int(given.argmax())
    share, majority = float(predicted[top]) / total, float(given[most]) / total
    rare = binomial_tail(total - int(given[top]), total, max(1 - share, 1 / total)) < LEVEL
    advice = "lower the learning rate or step_size, choose another divergence, or compare with uniform weights"
    if share >= ONE_CLASS and rare:
        labelled = f"{float(given[top]) / total:.0%} of them have this label"
        what = f"class {_name(top, names)} is predicted for {share:.0%} of the samples, and {labelled}"
        return [Alarm("collapsed", f"{what}: {advice}")]
    if right < majority * total and binomial_tail(total - right, total, 1 - majority) < LEVEL:
        what = f"the accuracy, {right / total:.1%}, is below that of always predicting class {_name(most, names)}"
        return [Alarm("collapsed", f"{what}, {majority:.1%}: {advice}")]
    return []


def memorising(right: Tensor, train_accuracy: Sequence[float]) -> list[Alarm]:
    """An alarm if the accuracy on trusted samples falls while that on training samples rises.

    Args:
        right: (k, m) booleans, which of m trusted samples were predicted correctly at each of k looks.
        train_accuracy: (k,) shares of the training samples whose given label is predicted.

    The looks are divided into ``LOOKS`` parts; the best is compared with the last, sample by sample.
    """
    if len(right) < LOOKS:
        return []
    parts = torch.stack([part.double().mean(0) for part in right.tensor_split(LOOKS)])
    accuracy, best = parts.mean(1), int(parts.mean(1).argmax())
    training = [float(part.mean()) for part in torch.tensor(train_accuracy).double().tensor_split(LOOKS)]
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


def class_alarms(weights: Tensor, labels: Tensor, trusted: Tensor, names: Sequence[str] | None = None) -> list[Alarm]:
    """An alarm if the weights (n,) move the class mix of the labels (n,) away from that of trusted labels (m,)."""
    classes = 1 + int(max(labels.max(), trusted.max()))
    counts = torch.bincount(trusted.long(), minlength=classes)
    before = torch.bincount(labels.long(), minlength=classes).double()
    after = torch.bincount(labels.long(), weights.double(), minlength=classes)
    distances = [mix_distance(shares, counts) for shares in (before, after)]
    if distances[1].p_value > LEVEL or distances[1].distance < distances[0].distance + LARGE_SHARE:
        return []
    shares = [x / x.sum().clamp_min(1e-12) for x in (before, after, counts.double())]
    worst = int((shares[1] - shares[2]).abs().argmax())
    given, weighted, wanted = (f"{float(share[worst]):.0%}" for share in shares)
    return [
        Alarm(
            "weights follow a class",
            f"class {_name(worst, names)} has {weighted} of the weight, but {wanted} of the trusted samples and "
            f"{given} of the training samples: the weights follow the class and not errors. Leave divergence "
            "unset for the default, which corrects the class mix, or match by class (adiw.Features)",
        )
    ]


def group_alarms(weights: Tensor, groups: Tensor, strata: Tensor, names: Sequence[str] | None = None) -> list[Alarm]:
    """An alarm if the weights (n,) of a group (n,) differ from those of samples with the same class and errors.

    ``strata`` (n,) numbers the combinations of label and of right or wrong prediction. The mean weight of a group is
    compared with the mean over the strata of its samples.
    """
    weights = weights.double()
    mean = _group_mean(weights, strata)[strata]
    for group in groups.unique().tolist():
        own = groups == group
        number, expected = int(own.sum()), float(mean[own].mean())
        test = paired_means(weights[own] - mean[own], 1 - LEVEL) if number >= LEAST_GROUP else None
        ratio = float(weights[own].mean()) / max(expected, 1e-12)
        if test is None or test.sign == 0 or 1 / LARGEST_RATIO <= ratio <= LARGEST_RATIO:
            continue
        return [
            Alarm(
                "weights follow a group",
                f"group {_name(group, names)} has a mean weight of {float(weights[own].mean()):.2f}, where samples "
                f"with the same labels and errors have {expected:.2f}: the weights follow the group and not "
                "errors. Add trusted samples of this group, in its share of the data that counts",
            )
        ]
    return []


def strata_of(labels: Tensor, predicted: Tensor) -> Tensor:
    """The combination of label and of right or wrong prediction of each sample, (n,) int64.

    >>> strata_of(torch.tensor([0, 0, 2]), torch.tensor([0, 1, 2]))
    tensor([0, 1, 4])
    """
    return 2 * labels.long() + (labels != predicted).long()


def _group_mean(values: Tensor, group: Tensor) -> Tensor:
    total = torch.bincount(group, values)
    return total / torch.bincount(group).clamp_min(1)


def _name(number: int, names: Sequence[str] | None) -> str:
    return str(number) if names is None else str(names[number])
