"""The penalised least-squares fit of a relative density ratio, and the search for its width and penalty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from sklearn.utils import check_random_state

from adiw.argument_checks import is_positive
from adiw.classic.estimator import KernelModel
from adiw.classic.rbf_features import Array, Width, choose_centres, rbf_features, sum_outer_products, widths_to_try

Penalty = float | Literal["cv"]
Moments = tuple[Array, Array]  # H (b, b) and h (b,)
PENALTIES = (1e-3, 3e-3, 1e-2, 0.03, 0.1, 0.3, 1.0)
WIDTHS = (0.33, 0.4, 0.5, 0.6, 0.8, 1.0, 1.4, 2.0)  # times the median distance
ALONE = 0.1  # where a search has nothing to hold out
TINY = float(np.finfo(np.float64).tiny)
# A wider kernel is taken if its held-out score is within this part of a standard error of the best one's: the
# best of many noisy scores is often that of a narrow kernel, whose error is large where it is wrong.
STANDARD_ERRORS = 0.25


def penalties_to_try(penalty: float | str) -> tuple[float, ...]:
    """The given penalty, or those that "cv" chooses from."""
    if isinstance(penalty, str) and penalty == "cv":
        return PENALTIES
    if not is_positive(penalty):
        raise ValueError(f'penalty must be a positive number or "cv", got {penalty!r}')
    return (float(penalty),)


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
        self.centres_ = choose_centres(test, self.centres, random)
        widths = widths_to_try(self.width, train, test, self.random_state, WIDTHS)
        penalties = penalties_to_try(self.penalty)
        found = self._search(train, test, alpha, widths, penalties, random)
        self.width_, self.penalty_, self.multiple_ = found
        H, h = moments(train, test, self.centres_, self.width_, alpha)
        self.coef_ = self.multiple_ * solve(H, h, self.penalty_)
        self.weights_ = self.predict(train)
        return H, h

    def _search(
        self,
        train: Array,
        test: Array,
        alpha: float,
        widths: Sequence[float],
        penalties: Sequence[float],
        random: np.random.RandomState,
    ) -> tuple[float, float, float]:
        """The width and the penalty with the smallest score on held-out folds of both samples, and the best multiple.

        The score is the objective 1/2 b'Hb - h'b for the best multiple of the coefficients b, -(h'b)^2 / (2 b'Hb): it
        judges the shape of the ratio. The size, which the penalty makes too small, is that of the multiple. Of the
        widths whose score is not significantly larger than the smallest one, it is the widest.
        """
        folds = min(self.folds, len(train), len(test))
        if len(widths) * len(penalties) == 1 or folds == 1:
            return widths[0], penalties[0] if len(penalties) == 1 else ALONE, 1.0
        fold_train, fold_test = (random.permutation(np.arange(len(sample)) % folds) for sample in (train, test))
        values = []
        for width in self._each(widths, "width"):
            parts = ((train[fold_train == k], test[fold_test == k]) for k in range(folds))
            values.append(_held_out([moments(*part, self.centres_, width, alpha) for part in parts], penalties))
        fit, square = np.stack(values, axis=1)  # (widths, folds, penalties)
        width, penalty = _widest(-(fit**2) / np.maximum(2 * square, TINY))
        multiple = fit[width, :, penalty].sum() / max(square[width, :, penalty].sum(), TINY)
        return widths[width], penalties[penalty], float(multiple)


def _held_out(each: list[Moments], penalties: Sequence[float]) -> Array:
    """h'b and b'Hb of each fold for the coefficients b of the others: (2, folds, penalties)."""
    total_H, total_h = sum(H for H, _ in each), sum(h for _, h in each)
    values = []
    for H, h in each:
        coefs = [solve((total_H - H) / (len(each) - 1), (total_h - h) / (len(each) - 1), p) for p in penalties]
        values.append([(h @ coef, coef @ H @ coef) for coef in coefs])
    return np.moveaxis(np.array(values), 2, 0)


def _widest(values: Array) -> tuple[int, int]:
    """Positions of the chosen width and penalty, from scores (widths in increasing order, folds, penalties)."""
    mean = values.mean(1)
    best_width, best_penalty = np.unravel_index(mean.argmin(), mean.shape)
    excess = values - values[best_width, :, best_penalty][None, :, None]
    error = excess.std(1, ddof=1) / np.sqrt(values.shape[1])
    close = (excess.mean(1) <= STANDARD_ERRORS * error).any(1)  # the best one itself is
    width = int(np.flatnonzero(close)[-1])
    return width, int(mean[width].argmin())
