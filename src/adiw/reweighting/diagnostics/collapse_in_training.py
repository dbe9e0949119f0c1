"""A collapse that few trusted samples do not show: seen in the predictions for training samples, which are many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor

from adiw.reweighting.diagnostics.alarms import (
    AFTER_COLLAPSE,
    LEVEL,
    NOT_EXCLUDED,
    ONE_CLASS,
    Alarm,
    has_other_classes,
    name_of,
)
from adiw.reweighting.diagnostics.evaluation_pass import evaluate_dataset
from adiw.reweighting.diagnostics.significance import binomial_tail
from adiw.reweighting.indexed_with_trusted import TrustedSamples
from adiw.reweighting.progress import OnProgress, silent

if TYPE_CHECKING:
    from adiw.reweighting.adiw import ADIW

SUSPECT = 0.9  # share of one class in the predictions of training passes from which the network is run again
MOST = 4096  # training samples that it is run on


def collapse_in_training(
    predicted: Tensor, given: Tensor, unseen: Tensor, unseen_given: Tensor, names: Sequence[str] | None = None
) -> list[Alarm]:
    """An alarm if one class has ``ONE_CLASS`` of the predictions for training samples, but not of trusted labels.

    Args:
        predicted: (n,) predicted classes of training samples.
        given: (m,) labels of all trusted samples.
        unseen, unseen_given: (k,) predicted classes and labels of trusted samples that were not trained on.

    The labels must have the other classes significantly more often than the predictions, and twice as often, and
    significantly more often than 1 - ``ONE_CLASS``. Training samples may have another class mix than trusted ones: so
    the predictions for unseen trusted samples must be as those for training samples, and have the other classes half
    as often as the labels, at most.

    >>> samples = [(torch.arange(n) < k).long() for n, k in ((1000, 40), (200, 20), (40, 1), (40, 4))]
    >>> [alarm.name for alarm in collapse_in_training(*samples)]
    ['collapsed']
    """
    total, top, trusted = len(predicted), int(torch.bincount(predicted).argmax()), len(given)
    other, other_given, other_unseen, other_labels = (
        int((x != top).sum()) for x in (predicted, given, unseen, unseen_given)
    )
    rate = other / total
    chance = max(rate, 1 / total)
    rare = binomial_tail(other_given, trusted, chance) < LEVEL and other_given > 2 * rate * trusted
    another_mix = binomial_tail(other_unseen, len(unseen), chance) < NOT_EXCLUDED or 2 * other_unseen > other_labels
    if 1 - rate < ONE_CLASS or not (rare and has_other_classes(other_given, trusted)) or another_mix:
        return []
    what = (
        f"class {name_of(top, names)} is predicted for {1 - rate:.0%} of {total:,} training samples, but "
        f"{1 - other_given / trusted:.0%} of {trusted} trusted samples have this label"
    )
    return [Alarm("collapsed", f"{what}: {AFTER_COLLAPSE}")]


def training_predictions(method: ADIW, progress: OnProgress = silent) -> Tensor | None:
    """The predicted classes of training samples, (n,), trusted ones excluded; None if they are not known.

    They are those of the last training passes. Where one class has nearly all of them, the network is run again, in
    evaluation mode: it has changed since, and in the passes it may have known the given labels. That needs the
    training set, which is known where ``adiw.Indexed`` joins the trusted samples.
    """
    known, val_set = method.record.known().cpu(), method.val_schedule.dataset
    predicted = method.record.predicted[:-1].cpu()[known].long()
    if len(predicted) == 0:
        return None
    joined = val_set.train_set if isinstance(val_set, TrustedSamples) else None
    if joined is None or float(torch.bincount(predicted).max()) < SUSPECT * len(predicted):
        return predicted
    place = known.nonzero().flatten()
    drawn = torch.randperm(len(place), generator=Generator().manual_seed(0))[:MOST].sort().values
    model = method.evaluator.model
    return evaluate_dataset(method.evaluator, model, joined.dataset, place[drawn], progress).predicted
