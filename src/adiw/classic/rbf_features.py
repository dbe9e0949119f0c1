"""Gaussian radial basis functions (RBF) centred on test points, their sums over large data, and their widths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist, pdist
from sklearn.utils import check_random_state

from adiw.argument_checks import is_positive

Array = NDArray[np.float64]
Width = float | Literal["cv", "median"]
WIDTHS = (0.1, 0.15, 0.25, 0.4, 0.6, 0.8, 1.0, 1.4, 2.0)  # that "cv" tries, times the median distance
CHUNK = 10_000  # rows of a kernel matrix in memory at a time


def rbf_features(X: Array, centres: Array, width: float) -> Array:
    """psi_l(x_i) = exp(-||x_i - c_l||^2 / (2 width^2)): (n, b).

    >>> rbf_features(np.array([[0.0]]), np.array([[0.0], [1.0]]), width=1.0).round(3)
    array([[1.   , 0.607]])
    """
    psi: Array = cdist(X, centres, "sqeuclidean")
    with np.errstate(over="ignore"):  # an overflow gives exp(-inf) = 0
        psi /= width
        psi /= -2 * width
    return np.exp(psi, out=psi)


def chunks(X: Array, size: int = CHUNK) -> Iterator[Array]:
    """The rows of X, ``size`` at a time."""
    for start in range(0, len(X), size):
        yield X[start : start + size]


def mean_features(X: Array, centres: Array, width: float) -> Array:
    """psi_bar = mean_i psi(x_i): (b,)."""
    total: Array = sum((rbf_features(part, centres, width).sum(0) for part in chunks(X)), np.zeros(len(centres)))
    return total / len(X)


def sum_outer_products(X: Array, centres: Array, width: float) -> Array:
    """sum_i psi(x_i) psi(x_i)': (b, b)."""
    total = np.zeros((len(centres), len(centres)))
    for part in chunks(X):
        psi = rbf_features(part, centres, width)
        total += psi.T @ psi
    return total


def choose_centres(X_test: Array, count: int, random: np.random.RandomState) -> NDArray[np.intp]:
    """The rows of at most ``count`` test points, drawn at random: (b,)."""
    rows: NDArray[np.intp] = np.sort(random.permutation(len(X_test))[:count])
    return rows


def widths_to_try(width: Width, X_train: Array, X_test: Array, random_state: Any) -> list[float]:
    """The given width; the median distance for "median"; multiples of it for "cv"."""
    if isinstance(width, str) and width in ("cv", "median"):
        median = median_distance(X_train, X_test, check_random_state(random_state))
        if width == "median" or min(len(X_train), len(X_test)) == 1:  # a single point cannot be held out
            return [median]
        return [median * factor for factor in WIDTHS]
    if not is_positive(width):
        raise ValueError(f'width must be a positive number, "median" or "cv", got {width!r}')
    return [float(width)]


def median_distance(X_train: Array, X_test: Array, random: np.random.RandomState) -> float:
    """The median distance between points of both samples pooled (the median heuristic), on random subsets."""
    median = float(np.median(pdist(pooled_sample(X_train, X_test, random))))
    return median if median > 0 else 1.0


def pooled_sample(X_train: Array, X_test: Array, random: np.random.RandomState, sample: int = 1000) -> Array:
    """At most so many random points of each sample."""
    return np.concatenate([part[random.permutation(len(part))[:sample]] for part in (X_train, X_test)])
