"""Warnings of trusted samples that are too few, or that do not have all classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from adiw.reweighting.summary import name_indices
from adiw.user_code import warn_user

FEW = 10  # with fewer trusted samples only a very large difference of the losses is evidence


def class_labels(batch: Any) -> Tensor | None:
    """The labels (m,) of a batch (x, y) of all trusted samples; None if y is not one integer per sample.

    >>> class_labels([torch.zeros(3, 2), torch.tensor([0, 1, 0])])
    tensor([0, 1, 0])
    >>> class_labels([torch.zeros(3, 2), torch.zeros(3)])
    """
    labels = batch[1] if isinstance(batch, (tuple, list)) and len(batch) > 1 else None
    if not isinstance(labels, Tensor) or labels.ndim != 1 or labels.is_floating_point() or labels.dtype == torch.bool:
        return None
    return labels


def warn_if_few(count: int) -> None:
    """Warn of fewer than ``FEW`` trusted samples."""
    if count < FEW:
        warn_user(
            f"only {count} trusted sample{'s' * (count > 1)}: an estimate from so few losses is unreliable, and the "
            "default keeps all weights near one unless they differ strongly from the training losses. Check the "
            "labels of more samples: 100 are a good start"
        )


def read_labels(dataset: Any) -> Tensor | None:
    """Labels of the items (x, y) of a data set, up to the second class: reading on would take long.

    None if y is not one integer per sample.

    >>> read_labels([("a", 3), ("b", 3), ("c", 1), ("d", 2)])
    tensor([3, 3, 1])
    """
    found: list[int] = []
    with torch.random.fork_rng(devices=[]):  # augmentation draws from the global generator
        for number in range(len(dataset)):
            item = dataset[number]
            label = item[1] if isinstance(item, (tuple, list)) and len(item) > 1 else None
            label = label.item() if isinstance(label, Tensor) and label.ndim == 0 else label
            if isinstance(label, bool) or not isinstance(label, (int, np.integer)):
                return None
            found.append(int(label))
            if found[-1] != found[0]:
                break
    return torch.tensor(found)


def warn_if_one_class(labels: Tensor | None) -> bool:
    """Warn of trusted labels (m,) that are all equal. Returns whether they are."""
    one = labels is not None and len(labels) > 1 and bool((labels == labels[0]).all())
    if one and labels is not None:
        warn_user(
            f"all {len(labels)} trusted samples are of class {int(labels[0])}: samples of the other classes are not "
            "matched with any of their own class, and the default lowers their weights. Draw trusted samples at "
            "random from the data on which the model will be used, so that they have all of its classes"
        )
    return one


def warn_of_missing_classes(trusted: Tensor | None, train: Tensor, factors: Tensor, known: set[int]) -> set[int]:
    """Warn of classes in the training labels (n,), -1 where unknown, that no trusted label (m,) has.

    Nothing is known before all trusted labels are. Classes in ``known`` were reported before. Returns all that are
    missing. ``factors`` (C,) are those of the weights of each class.
    """
    if trusted is None or bool((trusted == -1).any()):
        return known
    number = torch.arange(len(factors), device=factors.device)[:, None]
    missing = (number == train).any(1) & ~(number == trusted).any(1)
    found = set(missing.nonzero().flatten().tolist())
    if not found <= known:
        low, high = (f"{float(end):.2f}" for end in factors[missing].aminmax())
        warn_user(
            f"no trusted sample is of class {name_indices(missing)}, but training samples are: their weights are now "
            f"multiplied by {low if low == high else f'{low} to {high}'}. That is right if the data on "
            "which the model will be used do not have them; otherwise add trusted samples of each class"
        )
    return found | known
