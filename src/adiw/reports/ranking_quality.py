"""How well a ranking puts mislabelled samples first: AUROC and precision, with ties counted by their share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def auroc(levels: Array, flipped: Array) -> float:
    """The probability that a mislabelled sample ranks before an intact one; equal levels count half.

    levels: (n,) lower ranks first.  flipped: (n,) bool, the mislabelled samples.

    >>> auroc(np.array([0, 0, 1, 2]), np.array([True, False, True, False]))
    0.625
    """
    _, inverse, counts = np.unique(levels, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    wrong = int(flipped.sum())
    above = ranks[flipped].sum() - wrong * (wrong + 1) / 2
    return float(1 - above / (wrong * (len(levels) - wrong)))


def precision(levels: Array, flipped: Array) -> float:
    """The share of mislabelled samples among the k that rank first, where k is the number of mislabelled samples.

    Samples that are tied for the last of the k places count by the share of mislabelled samples among them.

    >>> precision(np.array([0, 1, 1, 2]), np.array([True, True, False, False]))
    0.75
    """
    wanted = int(flipped.sum())
    edge = np.sort(levels)[wanted - 1]
    before, tied = levels < edge, levels == edge
    found = flipped[before].sum() + (wanted - before.sum()) * flipped[tied].mean()
    return float(found / wanted)


def tied_levels(scores: Array, weights: Array) -> Array:
    """(n,) levels by score, then by last weight; only samples that are equal in both are tied."""
    pairs = np.stack([scores, weights], axis=1)
    return np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)
