"""Accuracy, weights and effective sample size of each class and each group of training samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from adiw.matching.weight_limits import effective_sample_size
from adiw.reweighting.sample_record import SampleRecord

Row = dict[str, Any]
Groups = tuple[Tensor, list[str]]  # the number of each sample's group (n,), and the names of the groups


def rows_of(weights: Tensor, groups: Tensor, names: Sequence[str], right: Tensor, right_groups: Tensor) -> list[Row]:
    """A row for each group that has samples.

    Args:
        weights: (n,) of the training samples.
        groups: (n,) the number of each sample's group, -1 for none.
        names: of the groups.
        right: (m,) which samples are predicted correctly, of the samples that the accuracy is measured on.
        right_groups: (m,) the groups of these.

    >>> import torch
    >>> right, groups = torch.tensor([True, False, True]), torch.tensor([0, 0, 1])
    >>> rows_of(torch.tensor([2.0, 0.0, 1.0]), groups, ["a", "b"], right, groups)[0]
    {'name': 'a', 'n': 2, 'accuracy': 50.0, 'mean_weight': 1.0, 'ess': 1.0}
    """
    found = []
    for number, name in enumerate(names):
        own = groups == number
        if not bool(own.any()):
            continue
        right_here = right[right_groups == number].double()
        accuracy = 100 * float(right_here.mean()) if len(right_here) else None
        mean, ess = float(weights[own].double().mean()), float(effective_sample_size(weights[own].double()))
        found.append({"name": str(name), "n": int(own.sum()), "accuracy": accuracy, "mean_weight": mean, "ess": ess})
    return found


def group_rows(weights: Tensor, record: SampleRecord, groups: Tensor, names: Sequence[str]) -> dict[str, list[Row]]:
    """The rows of the classes and of the groups (n,) in a loop; accuracies are those of the given labels."""
    labels, predicted = record.labels[:-1].cpu(), record.predicted[:-1].cpu()
    known = labels >= 0
    right = (labels == predicted)[known]
    classes = [str(number) for number in range(int(labels.max()) + 1)]
    return {
        "classes": rows_of(weights, labels, classes, right, labels[known]),
        "groups": rows_of(weights, groups, names, right, groups[known]),
    }
