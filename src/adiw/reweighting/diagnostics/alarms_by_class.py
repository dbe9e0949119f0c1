"""Alarms from the weights of classes and groups: they should follow errors, not a class or a group."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from adiw.reweighting.diagnostics.alarms import LARGE_SHARE, LEVEL, Alarm, name_of
from adiw.reweighting.diagnostics.significance import mix_distance, paired_means

UNEXPLAINED = 0.02  # of the weight: least difference of class shares that errors do not explain
LARGEST_RATIO = 2.0  # of the mean weight of a group to that of samples with the same classes and errors
LEAST_GROUP = 20  # samples


def right_labels(labels: Tensor, predicted: Tensor, trusted: Tensor, trusted_predicted: Tensor) -> Tensor:
    """The estimated number of right labels of each class, (C,), from labels and predicted classes.

    Of the training samples (n,) with a class, the share that is predicted as this class is that of the right labels,
    times the share of right labels that are predicted, which is known from the trusted samples (m,).

    >>> labels, trusted = torch.tensor([0, 0, 1, 1]), torch.tensor([0] * 9 + [1] * 9)
    >>> right_labels(labels, torch.tensor([0, 1, 1, 1]), trusted, trusted)
    tensor([1., 2.], dtype=torch.float64)
    """
    classes = 1 + int(max(x.max() for x in (labels, trusted)))
    agreed, recalled = (
        _per_class(y[y == p], classes) for y, p in ((labels, predicted), (trusted, trusted_predicted))
    )
    recall = (recalled + 1) / (_per_class(trusted, classes) + 1)  # one where a class has no trusted sample
    return (agreed / recall).minimum(_per_class(labels, classes))


def class_alarms(
    weights: Tensor,
    labels: Tensor,
    predicted: Tensor,
    trusted: Tensor,
    right: Tensor,
    names: Sequence[str] | None = None,
) -> list[Alarm]:
    """An alarm if the weights (n,) move the class mix of the labels (n,) away from that of trusted labels (m,).

    Weights that follow errors move it as well where some classes have more of them. So the mix is also compared with
    that of the ``right_labels``, (C,), and with that of weights that depend only on whether the label is predicted.
    """
    counts, given = (_per_class(x, len(right)) for x in (trusted, labels))
    weights, agreed = weights.double(), (labels == predicted).long()
    followed, errors = (
        torch.bincount(labels.long(), w, minlength=len(right))
        for w in (weights, _group_mean(weights, agreed)[agreed])
    )
    found = mix_distance(followed, counts)
    given_far, right_far, errors_far = (mix_distance(x, counts).distance for x in (given, right, errors))
    if found.p_value > LEVEL or found.distance < max(
        given_far + LARGE_SHARE, right_far + LARGE_SHARE, errors_far + UNEXPLAINED
    ):
        return []
    shares = [x / x.sum().clamp_min(1e-12) for x in (given, followed, counts)]
    worst = int((shares[1] - shares[2]).abs().argmax())
    has, gets, wanted = (f"{float(share[worst]):.0%}" for share in shares)
    return [
        Alarm(
            "weights follow a class",
            f"class {name_of(worst, names)} has {gets} of the weight, but {wanted} of the trusted samples and "
            f"{has} of the training samples: the weights follow the class and not errors. Leave divergence "
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
                f"group {name_of(group, names)} has a mean weight of {float(weights[own].mean()):.2f}, where samples "
                f"with the same labels and errors have {expected:.2f}: the weights follow the group and not "
                "errors. Add trusted samples of this group, until its share of them is that in the data on which the "
                "model is used",
            )
        ]
    return []


def strata_of(labels: Tensor, predicted: Tensor) -> Tensor:
    """The combination of label and of right or wrong prediction of each sample, (n,) int64.

    >>> strata_of(torch.tensor([0, 0, 2]), torch.tensor([0, 1, 2]))
    tensor([0, 1, 4])
    """
    return 2 * labels.long() + (labels != predicted).long()


def _per_class(labels: Tensor, classes: int) -> Tensor:
    return torch.bincount(labels.long(), minlength=classes).double()


def _group_mean(values: Tensor, group: Tensor) -> Tensor:
    total = torch.bincount(group, values)
    return total / torch.bincount(group).clamp_min(1)
