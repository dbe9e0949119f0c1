"""The width and penalty of a search: the mean over all settings, by their probability given held-out points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from sklearn.utils import check_random_state

from adiw.argument_checks import is_number, is_positive
from adiw.classic.rbf_features import Array, Width, median_distance, pooled_sample, widths_to_try

FACTORS = tuple(2 ** (0.4 * k) for k in range(-6, 3))  # 0.2 to 1.7, times the typical width
# A search prefers the typical width and penalty. One standard deviation is a factor of 1.5 in the width and of seven
# in the penalty: chosen, like the 1.15 below, on known ratios of one to eight columns.
TYPICAL_PENALTY, WIDTH_SPREAD, PENALTY_SPREAD = 0.1, 0.4, 2.0
PENALTIES = (1e-3, 3e-3, 1e-2, 0.03, 0.1, 0.3, 1.0)
LEAST = 0.05  # a held-out ratio below it counts as this: the logarithm of zero would decide
Penalty = float | Literal["cv"]


def search_widths(width: Width, X_train: Array, X_test: Array, random_state: Any) -> list[float]:
    """The given width; the median distance for "median"; multiples of ``typical_width`` for "cv"."""
    searched = isinstance(width, str) and width == "cv"
    if not searched or min(len(X_train), len(X_test)) == 1:  # a single point cannot be held out
        return widths_to_try(width, X_train, X_test, random_state)
    typical = typical_width(X_train, X_test, check_random_state(random_state))
    return [typical * factor for factor in FACTORS]


def penalties_to_try(penalty: float | str, tried: Sequence[float] = PENALTIES, zero: bool = False) -> Sequence[float]:
    """The given penalty, which may be ``zero``, or those that "cv" chooses from."""
    if isinstance(penalty, str) and penalty == "cv":
        return tried
    if not (is_positive(penalty) or (zero and is_number(penalty, least=0))):
        expected = "a number from 0" if zero else "a positive number"
        raise ValueError(f'penalty must be {expected} or "cv", got {penalty!r}')
    return (float(penalty),)


def centres_outside(fold: int, fold_of_centre: NDArray[np.intp]) -> NDArray[np.bool_]:
    """The centres that are not points of the fold: (b,); all of them, where there is no other.

    A kernel that is centred on a held-out point has its largest value there, whatever the ratio is.

    >>> centres_outside(1, np.array([0, 1, 2])), centres_outside(1, np.array([1]))
    (array([ True, False,  True]), array([ True]))
    """
    outside: NDArray[np.bool_] = fold_of_centre != fold
    return outside if outside.any() else ~outside


def typical_width(X_train: Array, X_test: Array, random: np.random.RandomState) -> float:
    """1.15 sqrt(median * (upper - lower quartile)) of the distances between points of both samples pooled.

    It is about the median distance with one column, and less with more, where all distances are nearly equal.

    >>> points = np.arange(5.0)[:, None]  # the quartiles of their distances are 1, 2 and 2.75
    >>> round(typical_width(points[:2], points[2:], np.random.RandomState(0)), 3)
    2.151
    """
    lower, median, upper = np.quantile(pdist(pooled_sample(X_train, X_test, random)), [0.25, 0.5, 0.75])
    width = 1.15 * float(np.sqrt(median * (upper - lower)))
    return width if width > 0 else median_distance(X_train, X_test, random)


def mean_settings(
    scores: Array, widths: Sequence[float], penalties: Sequence[float] = (TYPICAL_PENALTY,)
) -> tuple[float, float]:
    """The geometric means of the widths and the penalties over their probabilities.

    The logarithm of a probability is the score, a held-out log-likelihood (widths, penalties), plus a prior, which
    decides where scores differ by less than their noise. The mean varies less with the noise than the best setting.
    """
    typical = widths[FACTORS.index(1.0)] if len(widths) > 1 else widths[0]
    prior = _log_prior(widths, typical, WIDTH_SPREAD), _log_prior(penalties, TYPICAL_PENALTY, PENALTY_SPREAD)
    logarithm = scores + prior[0][:, None] + prior[1]
    probability = np.exp(logarithm - logarithm.max())
    return _geometric_mean(widths, probability.sum(1)), _geometric_mean(penalties, probability.sum(0))


def _log_prior(values: Sequence[float], typical: float, spread: float) -> Array:
    """The logarithm of a log-normal density, up to a constant: (len(values),). Zero for a single value.

    >>> _log_prior([0.5, 1.0, 2.0], typical=1.0, spread=np.log(2))
    array([-0.5, -0. , -0.5])
    """
    if len(values) == 1:
        return np.zeros(1)
    prior: Array = -np.square(np.log(np.divide(values, typical)) / spread) / 2
    return prior


def _geometric_mean(values: Sequence[float], weights: Array) -> float:
    """The weighted geometric mean; a single value exactly.

    >>> round(_geometric_mean([1.0, 100.0], np.array([1.0, 1.0])), 6)
    10.0
    """
    if len(values) == 1:
        return values[0]
    return values[0] * float(np.exp(np.average(np.log(np.divide(values, values[0])), weights=weights)))
