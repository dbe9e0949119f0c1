"""The penalised least-squares fit of a relative density ratio, and the search for its width and penalty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from adiw.classic.estimator import KernelModel
from adiw.classic.rbf_features import (
    Array,
    Width,
    choose_centres,
    mean_features,
    rbf_features,
    sum_outer_products,
)
from adiw.classic.search import (
    LEAST,
    TYPICAL_PENALTY,
    Penalty,
    centres_outside,
    mean_settings,
    penalties_to_try,
    search_widths,
)

Moments = tuple[Array, Array]  # H (b, b) and h (b,)
TINY = float(np.finfo(np.float64).tiny)
MOST = 1e9  # a held-out ratio above it counts as this


def moments(train: Array, test: Array, centres: Array, width: float, alpha: float) -> Moments:
    """H = (1 - alpha) mean_train psi psi' + alpha mean_test psi psi', and h = mean_test psi."""
    of_train, of_test = (sum_outer_products(part, centres, width) / len(part) for part in (train, test))
    h: Array = rbf_features(test, centres, width).mean(0)
    return (1 - alpha) * of_train + alpha * of_test, h


def solve(H: Array, h: Array, penalty: float) -> Array:
    """max(0, (H + penalty I)^-1 h): (b,)."""
    coef: Array = np.maximum(np.linalg.solve(H + penalty * np.eye(len(H)), h), 0)
    return coef


class LeastSquaresModel(KernelModel):
    """What uLSIF and RuLSIF share: the fit, and the choice of width and penalty."""

    width: Width
    penalty: Penalty
    centres: int
    folds: int
    random_state: Any

    def _fit(self, train: Array, test: Array, alpha: float) -> Moments:
        """Set ``centres_``, ``width_``, ``penalty_``, ``multiple_``, ``coef_`` and ``weights_``. Returns H and h."""
        random = check_random_state(self.random_state)
        rows = choose_centres(test, self.centres, random)
        self.centres_ = test[rows]
        widths = search_widths(self.width, train, test, self.random_state)
        penalties = penalties_to_try(self.penalty)
        found = self._search(train, test, rows, alpha, widths, penalties, random)
        self.width_, self.penalty_, self.multiple_ = found
        H, h = moments(train, test, self.centres_, self.width_, alpha)
        self.coef_ = self.multiple_ * solve(H, h, self.penalty_)
        self.weights_ = self.predict(train)
        return H, h

    def _search(
        self,
        train: Array,
        test: Array,
        rows: NDArray[np.intp],
        alpha: float,
        widths: Sequence[float],
        penalties: Sequence[float],
        random: np.random.RandomState,
    ) -> tuple[float, float, float]:
        """The width and the penalty, by held-out folds of both samples, and the best multiple of the coefficients.

        The score is the log-likelihood of test points under the ratio divided by its mean, log r - mean_mixture r.
        The multiple corrects the size, which the penalty makes too small; it is the best for the squared objective.
        """
        folds = min(self.folds, len(train), len(test))
        if len(widths) * len(penalties) == 1 or folds == 1:
            return widths[0], penalties[0] if len(penalties) == 1 else TYPICAL_PENALTY, 1.0
        fold_train, fold_test = (random.permutation(np.arange(len(sample)) % folds) for sample in (train, test))

        def held_out(width: float, penalties: Sequence[float]) -> Array:
            parts = ((train[fold_train == k], test[fold_test == k]) for k in range(folds))
            each = [_fold(*part, self.centres_, width, alpha) for part in parts]
            return _held_out(each, [centres_outside(k, fold_test[rows]) for k in range(folds)], penalties)

        scores = [held_out(width, penalties)[0].mean(0) for width in self._each(widths, "width")]
        width, penalty = mean_settings(len(test) * np.array(scores), widths, penalties)
        _, fit, square = held_out(width, [penalty])
        return width, penalty, float(fit.sum() / max(square.sum(), TINY))


@dataclass(frozen=True)
class _Fold:
    H: Array  # (b, b)
    h: Array  # (b,)
    mean: Array  # (b,) of psi over the mixture below the ratio
    psi_test: Array  # (m, b)


def _fold(train: Array, test: Array, centres: Array, width: float, alpha: float) -> _Fold:
    H, h = moments(train, test, centres, width, alpha)
    mean = (1 - alpha) * mean_features(train, centres, width) + alpha * h
    return _Fold(H, h, mean, rbf_features(test, centres, width))


def _held_out(each: list[_Fold], outside: list[NDArray[np.bool_]], penalties: Sequence[float]) -> Array:
    """The score, h'b and b'Hb of each fold for the coefficients b of the others: (3, folds, penalties).

    The coefficients are zero but for the centres ``outside`` of the fold.
    """
    total_H, total_h, total_mean = sum(f.H for f in each), sum(f.h for f in each), sum(f.mean for f in each)
    values = []
    for fold, used in zip(each, outside, strict=True):
        others = len(each) - 1
        H, h, mean = (total_H - fold.H) / others, (total_h - fold.h) / others, (total_mean - fold.mean) / others
        coefs = np.zeros((len(h), len(penalties)))
        coefs[used] = np.stack([solve(H[np.ix_(used, used)], h[used], penalty) for penalty in penalties], axis=1)
        size = np.maximum(mean @ coefs, TINY)
        ratios = np.clip(fold.psi_test @ coefs / size, LEAST, MOST)
        score = np.log(ratios).mean(0) - np.minimum(fold.mean @ coefs / size, MOST)
        values.append((score, fold.h @ coefs, np.einsum("bp,bc,cp->p", coefs, fold.H, coefs)))
    return np.moveaxis(np.array(values), 1, 0)
