"""Ranking training samples by their weights over the epochs: the lowest are the likely wrong labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

WARM_UP = 1  # epochs in which all weights are one

Array = NDArray[Any]


def weight_score(history: Array, epochs: Sequence[int], weights: Array) -> Array:
    """(n,) the mean of sqrt(w / mean w) over the epochs after the warm-up.

    The mean over epochs is steadier than the last weight: with some divergences many weights are zero after one
    epoch, and others after the next. The root keeps one large weight from outweighing many small ones. The division
    gives all epochs the same influence. Epochs whose mean weight is zero or not finite are excluded.

    history: (e, n) weights after each of the ``epochs``;  weights: (n,) the last weights, used without a history.

    >>> history = np.array([[1.0, 1.0], [0.0, 2.0], [0.5, 1.5]])
    >>> weight_score(history, [1, 2, 3], np.array([0.5, 1.5])).round(2).tolist()
    [0.35, 1.32]
    """
    after = [row for row, epoch in zip(history, epochs, strict=True) if epoch > WARM_UP]
    rows = np.stack(after or [weights]).astype(np.float64)
    means = rows.mean(axis=1, keepdims=True)
    usable = (np.isfinite(means) & (means > 0))[:, 0]
    if not usable.any():
        return np.zeros(len(weights))
    scores: Array = np.sqrt(rows[usable] / means[usable]).mean(axis=0)
    return scores


def lowest_first(scores: Array, weights: Array) -> Array:
    """(n,) indices by score; equal scores by the last weight, then by index.

    >>> lowest_first(np.array([0.0, 0.0, 1.0, 0.0]), np.array([0.5, 0.0, 0.0, 0.0])).tolist()
    [1, 3, 0, 2]
    """
    order: Array = np.lexsort((np.arange(len(scores)), weights, scores))
    return order
