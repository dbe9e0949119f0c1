"""The cut-off of a label audit: how many of the least trusted samples to check, calibrated by the trusted samples.

A network learns trusted samples better than others with right labels, since their weights are larger. So the two are
compared by losses of networks that were not trained on the sample, and the mean losses over training only rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# Chosen, as all that follow, on the development half of benchmarks/gauntlet.
QUANTILES = (0.65, 0.8, 0.9)  # of the trusted losses, below which training samples have right labels
EVIDENCE = 3.0  # standard errors by which the share of right labels must be below one
CAUTION = 2.0  # standard errors by which it is taken to be larger than its estimate
FEW = 5.0  # trusted samples: with so many, both numbers of standard errors are doubled
LEAST_TRUSTED = 20  # samples of a class that is compared by itself
LEAST_ABOVE = 2.0  # trusted samples above a quantile, for the standard error
LEAST_PRECISION = 0.5  # of a cut-off that is suggested


@dataclass(frozen=True)
class Cutoff:
    """How many of the first samples to check."""

    number: int  # samples before the cut-off
    precision: float  # share of them that is expected to be mislabelled
    least: float  # a cautious estimate of the same share
    wrong: int  # labels that are expected to be wrong in the whole training set

    def __str__(self) -> str:
        return (
            f"Check the first {self.number}: about {self.precision:.0%} of them are expected to be mislabelled, by a "
            f"cautious estimate at least {self.least:.0%}. As a rough estimate, {self.wrong} labels are wrong in all."
        )


@dataclass(frozen=True)
class Losses:
    """Losses of samples by networks that were not trained on them, and their labels, (n,)."""

    unseen: Array  # nan where unknown, not for trusted samples
    given: Array | None = None  # None where they are not classes


@dataclass(frozen=True)
class Shares:
    """The estimated share of right labels in each group, (K,), and in all."""

    groups: Array
    right: float
    error: float  # standard error of ``right``
    chance: float  # the same if all labels were right


def suggest_cutoff(mean: Array, train: Losses, trusted: Losses) -> Cutoff | None:
    """A cut-off for training samples with these mean losses (n,); None without evidence of wrong labels.

    As many samples as there are wrong labels, by a cautious estimate, are before the cut-off, or fewer where less
    than half of them would be mislabelled. The precision is that of their losses by networks that were not trained on
    them. It is too small rather than too large, since the mean losses that rank them tell more. ``least``
    is the precision if one more trusted sample of each group had such losses, since trusted samples are few.

    >>> right, wrong = np.linspace(0, 1, 600), np.linspace(4, 5, 400)
    >>> losses, trusted = np.concatenate([right, wrong]), np.linspace(0, 1, 100)
    >>> suggest_cutoff(losses, Losses(losses), Losses(trusted))  # doctest: +ELLIPSIS
    Cutoff(number=359, precision=1.0, least=0.98..., wrong=401)
    """
    n, members = len(mean), groups_of(train, trusted)
    if not members:
        return None
    found = [share_right(train.unseen, members, quantile) for quantile in QUANTILES]
    few = 1 + FEW / len(trusted.unseen)
    caution = CAUTION * few
    shares = min(found, key=lambda each: each.right + caution * each.error)
    number = round((1 - shares.right - caution * shares.error) * n)
    if shares.right + EVIDENCE * few * shares.chance >= 1 or number <= 0:
        return None
    right = np.full(n, np.nan)  # the probability of a right label
    for (member, unseen), share in zip(members, shares.groups, strict=True):
        known = member & np.isfinite(train.unseen)
        right[known] = chance_right(train.unseen[known], unseen, min(share + caution * shares.error, 1))
    order = np.argsort(-mean, kind="stable")[:number]
    known = np.isfinite(right[order]).cumsum()
    precision = np.where(known, 1 - np.nancumsum(right[order]) / np.maximum(known, 1), 0)
    enough = np.flatnonzero(precision >= LEAST_PRECISION)
    if not len(enough):
        return None
    count, one = int(enough[-1]) + 1, 0.0
    for (member, unseen), share in zip(members, shares.groups, strict=True):
        stands_for = min(share + caution * shares.error, 1) * member.sum() / (len(unseen) + 1)
        one += min(stands_for, member[order[:count]].sum())
    expected = float(precision[count - 1])
    return Cutoff(count, expected, max(float(expected - one / count), 0.0), round((1 - shares.right) * n))


def groups_of(train: Losses, trusted: Losses) -> list[tuple[Array, Array]]:
    """Groups of training samples, masks (n,), each with the losses of the trusted samples to compare with.

    Labels may be wrong in one class only, so each class is a group. Those with few trusted samples are one together.
    """
    group, other = (np.full(len(each.unseen), -1) for each in (train, trusted))
    if train.given is not None and trusted.given is not None and len(trusted.given):
        counts = np.bincount(trusted.given, minlength=1 + train.given.max(initial=0))
        numbers = np.where(counts >= LEAST_TRUSTED, np.arange(len(counts)), -1)
        group, other = numbers[train.given], numbers[trusted.given]
    found = [(group == k, trusted.unseen[other == k]) for k in np.unique(group)]
    return [(member, unseen) for member, unseen in found if len(unseen) and np.isfinite(train.unseen[member]).any()]


def share_right(unseen: Array, members: Sequence[tuple[Array, Array]], quantile: float) -> Shares:
    """The share of right labels among samples with these losses (n,).

    It is that of losses below a quantile of the trusted ones, divided by the share of trusted ones there. Samples in
    none of the groups are taken to have right labels.

    >>> group = (np.array([True] * 4), np.array([0.1, 0.2] * 50))
    >>> share_right(np.array([0.1, 0.2, 5.0, 5.0]), [group], 0.8).right
    0.5
    """
    shares, variances = [], []
    for member, trusted in members:
        own, m = unseen[member & np.isfinite(unseen)], len(trusted)
        bound = np.quantile(trusted, quantile, method="higher")
        below = (own <= bound).mean()
        share = float(below / (trusted <= bound).mean())
        above = max(1 - quantile, LEAST_ABOVE / m)
        shares.append(share)
        size = (share * member.mean()) ** 2 / m
        variances.append((size * above / quantile, size * max(1 - below, above) / max(below, 1 / m)))
    parts = np.array([member.mean() for member, _ in members])
    error, chance = np.sqrt(np.sum(variances, axis=0)).tolist()
    return Shares(np.array(shares), float(1 - parts @ (1 - np.array(shares))), error, chance)


def chance_right(unseen: Array, trusted: Array, share: float) -> Array:
    """(n,) the probability that a label is right, given losses (n,); ``share`` of them are.

    It is proportional to the ratio of the densities of trusted and training losses, estimated in parts with as many
    training losses each and decreasing with the loss.

    >>> chance_right(np.array([0.1, 0.1, 5.0, 5.0]), np.array([0.1] * 8), 0.5)
    array([1., 1., 0., 0.])
    """
    ordered, parts = np.sort(unseen), min(max(round(2 * len(trusted) ** 0.5), 4), 50)

    def part(losses: Array) -> Array:
        ends = np.searchsorted(ordered, losses) + np.searchsorted(ordered, losses, side="right")
        found: Array = np.minimum(ends * parts // (2 * len(ordered)), parts - 1)
        return found

    ratio = decreasing(np.bincount(part(trusted), minlength=parts) * parts / len(trusted))
    found: Array = np.minimum(share * ratio[part(unseen)], 1)
    return found


def decreasing(values: Array) -> Array:
    """argmin_x ||x - values||^2 subject to x_1 >= x_2 >= ... (isotonic regression): (K,).

    >>> decreasing(np.array([3.0, 1.0, 2.0, 0.0])).tolist()
    [3.0, 1.5, 1.5, 0.0]
    """
    total, number = np.concatenate([[0.0], np.cumsum(values)]), np.arange(len(values))
    length = number - number[:, None] + 1
    mean = (total[1:] - total[:-1, None]) / np.maximum(length, 1)
    largest = np.maximum.accumulate(np.where(length > 0, mean, -np.inf)[:, ::-1], axis=1)[:, ::-1]
    found: Array = np.where(length > 0, largest, np.inf).min(0)
    return found
