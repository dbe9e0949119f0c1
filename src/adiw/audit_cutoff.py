"""The cut-off of a label audit: how many of the least trusted samples to check, calibrated by the trusted samples.

A network learns trusted samples better than others with right labels, since their weights are always large: their
mean losses over training promise too much. Early in training all weights are about one, and losses of right labels
are alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# Chosen, as all that follow, on the development half of benchmarks/gauntlet.
QUANTILES = (0.65, 0.8, 0.9)  # of the early trusted losses, below which training samples have right labels
EVIDENCE = 3.0  # standard errors by which the share of right labels must be below one
CAUTION = 2.0  # standard errors by which it is taken to be larger than its estimate
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
        least = "" if self.precision - self.least < 0.01 else f" (probably at least {self.least:.0%})"
        return (
            f"Check the first {self.number}: about {self.precision:.0%} of them are expected to be "
            f"mislabelled{least}. About {self.wrong} labels are expected to be wrong in all."
        )


@dataclass(frozen=True)
class Losses:
    """Losses of training samples, or of trusted samples that are trained on, (n,) each."""

    mean: Array  # over training
    early: Array  # early in training; nan where unknown, not for trusted samples
    given: Array | None = None  # labels, if they are classes


@dataclass(frozen=True)
class Shares:
    """The estimated share of right labels in each group, (K,), and in all."""

    groups: Array
    right: float
    error: float  # standard error of ``right``
    chance: float  # the same if all labels were right


def suggest_cutoff(train: Losses, trusted: Losses) -> Cutoff | None:
    """A cut-off for training samples; None without evidence of wrong labels.

    As many samples as there are wrong labels, by a cautious estimate, are before the cut-off, or fewer where less
    than half of them would be mislabelled. The expected precision is the middle of two: by the early losses of these
    samples, which is too small, since their mean losses tell more; and by the trusted samples whose mean losses are
    as large, which is too large.

    >>> right, wrong = np.linspace(0, 1, 600), np.linspace(4, 5, 400)
    >>> losses, trusted = np.concatenate([right, wrong]), np.linspace(0, 1, 100)
    >>> suggest_cutoff(Losses(losses, losses), Losses(trusted, trusted))  # doctest: +ELLIPSIS
    Cutoff(number=361, precision=0.99..., least=0.98..., wrong=401)
    """
    n, members = len(train.mean), groups_of(train, trusted)
    if not members:
        return None
    found = [share_right(train.early, members, quantile) for quantile in QUANTILES]
    shares = min(found, key=lambda each: each.right + CAUTION * each.error)
    careful = shares.right + CAUTION * shares.error
    number = round((1 - careful) * n)
    if shares.right + EVIDENCE * shares.chance >= 1 or number <= 0:
        return None
    chance = np.full(n, careful)
    for (member, early), share in zip(members, shares.groups, strict=True):
        known = member & np.isfinite(train.early)
        chance[known] = chance_right(train.early[known], early, share + CAUTION * shares.error)
    first, count = np.argsort(-train.mean, kind="stable")[:number], np.arange(1, number + 1)
    by_early = 1 - np.cumsum(chance[first]) / count
    m = len(trusted.mean)
    exceeding = (m - np.searchsorted(np.sort(trusted.mean), train.mean[first]) + 1) / (m + 1)
    both = np.stack([by_early, 1 - careful * n * exceeding / count])
    enough = np.flatnonzero(both.mean(0) >= LEAST_PRECISION)
    if not len(enough):
        return None
    last = int(enough[-1])
    precision, least = float(both[:, last].mean()), float(both[:, last].min().clip(0))
    return Cutoff(last + 1, precision, least, round((1 - shares.right) * n))


def groups_of(train: Losses, trusted: Losses) -> list[tuple[Array, Array]]:
    """Groups of training samples, masks (n,), each with the early losses of the trusted samples to compare with.

    Labels may be wrong in one class only, so each class is a group. Those with few trusted samples are one together.
    """
    group, other = (np.full(len(each.mean), -1) for each in (train, trusted))
    if train.given is not None and trusted.given is not None and len(trusted.given):
        counts = np.bincount(trusted.given, minlength=1 + train.given.max(initial=0))
        numbers = np.where(counts >= LEAST_TRUSTED, np.arange(len(counts)), -1)
        group, other = numbers[train.given], numbers[trusted.given]
    found = [(group == k, trusted.early[other == k]) for k in np.unique(group)]
    return [(member, early) for member, early in found if len(early) and np.isfinite(train.early[member]).any()]


def share_right(early: Array, members: Sequence[tuple[Array, Array]], quantile: float) -> Shares:
    """The share of right labels among samples with these early losses (n,).

    It is that of losses below a quantile of the trusted ones, divided by the share of trusted ones there. Samples in
    none of the groups are taken to have right labels.

    >>> group = (np.array([True] * 4), np.array([0.1, 0.2] * 50))
    >>> share_right(np.array([0.1, 0.2, 5.0, 5.0]), [group], 0.8).right
    0.5
    """
    shares, variances = [], []
    for member, trusted in members:
        own, m = early[member & np.isfinite(early)], len(trusted)
        bound = np.quantile(trusted, quantile, method="higher")
        below = (own <= bound).mean()
        share = min(1.0, float(below / (trusted <= bound).mean()))
        above = max(1 - quantile, LEAST_ABOVE / m)
        shares.append(share)
        size = (share * member.mean()) ** 2 / m
        variances.append((size * above / quantile, size * max(1 - below, above) / max(below, 1 / m)))
    parts = np.array([member.mean() for member, _ in members])
    error, chance = np.sqrt(np.sum(variances, axis=0)).tolist()
    return Shares(np.array(shares), float(1 - parts @ (1 - np.array(shares))), error, chance)


def chance_right(early: Array, trusted: Array, share: float) -> Array:
    """(n,) the probability that a label is right, given early losses (n,); ``share`` of them are.

    It is proportional to the ratio of the densities of trusted and training losses, estimated in parts with as many
    training losses each and decreasing with the loss.

    >>> chance_right(np.array([0.1, 0.1, 5.0, 5.0]), np.array([0.1] * 8), 0.5)
    array([1., 1., 0., 0.])
    """
    ordered, parts = np.sort(early), min(max(round(2 * len(trusted) ** 0.5), 4), 50)

    def part(losses: Array) -> Array:
        ends = np.searchsorted(ordered, losses) + np.searchsorted(ordered, losses, side="right")
        found: Array = np.minimum(ends * parts // (2 * len(ordered)), parts - 1)
        return found

    ratio = decreasing(np.bincount(part(trusted), minlength=parts) * parts / len(trusted))
    found: Array = np.minimum(share * ratio[part(early)], 1)
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
