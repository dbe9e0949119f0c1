"""How far a run came to trust each training sample: one score from the history of its weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

WARM_UP = 1  # epochs: until then all weights are one and say nothing

Array = NDArray[Any]


def trust(history: Array, epochs: Sequence[int], weights: Array) -> Array:
    """(n,) the mean over the epochs after the warm-up of sqrt(w / mean w).

    The last weight alone forgets: some divergences leave many weights at zero after one epoch and others after the
    next. The mean remembers; the root keeps one large weight from outweighing many small ones; the division keeps
    epochs with a large mean weight from counting for more.

    history: (e, n) weights after each of the e ``epochs``;  weights: (n,) the last, used where there are no others.

    >>> trust(np.array([[1.0, 1.0], [0.0, 2.0], [0.5, 1.5]]), [1, 2, 3], np.array([0.5, 1.5])).round(2).tolist()
    [0.35, 1.32]
    """
    after = [row for row, epoch in zip(history, epochs, strict=True) if epoch > WARM_UP]
    rows = np.stack(after or [weights]).astype(np.float64)
    rows = rows[rows.mean(axis=1) > 0]
    if not len(rows):
        return np.zeros(len(weights))
    scores: Array = np.sqrt(rows / rows.mean(axis=1, keepdims=True)).mean(axis=0)
    return scores


def least_trusted_first(scores: Array, weights: Array) -> Array:
    """(n,) indices by score; equal ones by their last weight, then by index.

    >>> least_trusted_first(np.array([0.0, 0.0, 1.0, 0.0]), np.array([0.5, 0.0, 0.0, 0.0])).tolist()
    [1, 3, 0, 2]
    """
    order: Array = np.lexsort((np.arange(len(scores)), weights, scores))
    return order
