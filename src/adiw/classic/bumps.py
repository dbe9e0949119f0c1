"""Gaussian bumps on a few test points: their sums over data of any size, in chunks, and the widths to try."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist, pdist

Array = NDArray[np.float64]
CHUNK = 10_000  # rows of a kernel matrix that exist at a time


def bumps(X: Array, centres: Array, width: float) -> Array:
    """psi_l(x_i) = exp(-||x_i - c_l||^2 / (2 width^2)): (n, b).

    >>> bumps(np.array([[0.0]]), np.array([[0.0], [1.0]]), width=1.0).round(3)
    array([[1.   , 0.607]])
    """
    psi: Array = cdist(X, centres, "sqeuclidean")
    with np.errstate(over="ignore"):  # a point that is infinitely many widths away has no bump
        psi /= width
        psi /= -2 * width
    return np.exp(psi, out=psi)


def chunks(X: Array, size: int = CHUNK) -> Iterator[Array]:
    """The rows of X, ``size`` at a time, none left out."""
    for start in range(0, len(X), size):
        yield X[start : start + size]


def mean_bumps(X: Array, centres: Array, width: float) -> Array:
    """psi_bar = mean_i psi(x_i): (b,)."""
    total: Array = sum((bumps(part, centres, width).sum(0) for part in chunks(X)), np.zeros(len(centres)))
    return total / len(X)


def sum_products(X: Array, centres: Array, width: float) -> Array:
    """sum_i psi(x_i) psi(x_i)': (b, b)."""
    total = np.zeros((len(centres), len(centres)))
    for part in chunks(X):
        psi = bumps(part, centres, width)
        total += psi.T @ psi
    return total


def choose_centres(X_test: Array, count: int, random: np.random.RandomState) -> Array:
    """At most ``count`` test points, drawn at random: (b, d)."""
    return X_test[np.sort(random.permutation(len(X_test))[:count])]


def median_distance(X_train: Array, X_test: Array, random: np.random.RandomState, sample: int = 1000) -> float:
    """The median distance between points of both sets pooled (the median heuristic), from a sample of them."""
    pooled = np.concatenate([part[random.permutation(len(part))[:sample]] for part in (X_train, X_test)])
    median = float(np.median(pdist(pooled)))
    return median if median > 0 else 1.0


def candidate_widths(median: float) -> list[float]:
    """Widths from a tenth of the median distance to twice it."""
    return [median * factor for factor in (0.1, 0.15, 0.25, 0.4, 0.6, 0.8, 1.0, 1.4, 2.0)]
