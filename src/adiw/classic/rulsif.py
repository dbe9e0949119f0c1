"""RuLSIF: the relative density ratio in closed form (Yamada et al. 2013)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from adiw.argument_checks import is_number, is_positive
from adiw.classic.estimator import KernelModel, check_samples
from adiw.classic.rbf_features import Array, Width, choose_centres, rbf_features, sum_outer_products, widths_to_try

PENALTIES = (1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0)


class RULSIF(KernelModel):
    """w(x) = sum_l coef_l psi_l(x), an estimate of p_test / (alpha p_test + (1 - alpha) p_train), at most 1 / alpha.

    coef = max(0, (H + penalty I)^-1 h) with H = (1 - alpha) mean_train psi psi' + alpha mean_test psi psi'. The bound
    makes it accurate where the plain ratio is large: its error does not depend on the largest ratio.

    Args:
        alpha: share of the test distribution below the ratio, from 0 (uLSIF) to below 1.
        width: sigma of the kernel, "median" (the median distance), or "cv" (the smallest held-out objective).
        penalty: lambda of the squared penalty, or "cv". If both are "cv", they are chosen jointly.
        centres: largest number of kernel centres, drawn from the test points.
        folds: folds of both samples, for "cv".
        random_state: draws the centres and the folds.
        verbose: 1 prints a line of progress every two seconds.

    Attributes:
        weights_: (n_train,) estimated relative ratio at the training points, at most 1 / alpha.
        coef_, centres_, width_, penalty_: the fitted model.
        divergence_: the estimated relative Pearson divergence of the two samples.

    >>> rng = np.random.default_rng(0)
    >>> fit = RULSIF(alpha=0.2).fit(rng.normal(0, 1, (500, 1)), rng.normal(1, 0.5, (100, 1)))
    >>> bool(fit.predict([[1.0]])[0] > 5 * fit.predict([[-1.0]])[0]), bool(fit.weights_.max() <= 5)
    (True, True)
    """

    def __init__(
        self,
        alpha: float = 0.1,
        width: Width = "cv",
        penalty: float | Literal["cv"] = "cv",
        centres: int = 100,
        folds: int = 5,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.alpha, self.width, self.penalty = alpha, width, penalty
        self.centres, self.folds, self.random_state, self.verbose = centres, folds, random_state, verbose

    def fit(self, X_train: ArrayLike, y: ArrayLike | None = None, *, X_test: ArrayLike | None = None) -> RULSIF:
        """Estimate the relative ratio from X_train (n, d) and X_test (m, d): call fit(X_train, X_test)."""
        train, test = check_samples(self, X_train, y, X_test)
        if not (is_number(self.alpha, least=0) and self.alpha < 1):
            raise ValueError(f"alpha must be a number from 0 to below 1, got {self.alpha!r}")
        self.n_features_in_ = train.shape[1]
        random = check_random_state(self.random_state)
        self.centres_ = choose_centres(test, self.centres, random)
        widths = widths_to_try(self.width, train, test, self.random_state)
        penalties = _penalties_to_try(self.penalty)
        folds = min(self.folds, len(train), len(test)) if len(widths) * len(penalties) > 1 else 1
        parts = [random.permutation(np.arange(len(sample)) % folds) for sample in (train, test)]
        best = (np.inf, widths[0], penalties[0])
        for width in self._each(widths if folds > 1 else [], "width"):
            moments = [self._moments(train[parts[0] == k], test[parts[1] == k], width) for k in range(folds)]
            best = min([best, *((_held_out(moments, penalty), width, penalty) for penalty in penalties)])
        _, self.width_, self.penalty_ = best
        H, h = self._moments(train, test, self.width_)
        self.coef_ = _solve(H, h, self.penalty_)
        self.divergence_ = float(h @ self.coef_ - self.coef_ @ H @ self.coef_ / 2 - 0.5)
        self.weights_ = self.predict(train)
        return self

    def predict(self, X: ArrayLike) -> Array:
        """The estimated relative ratio at each row of X: (n,), at most 1 / alpha."""
        bound = 1 / self.alpha if self.alpha > 0 else np.inf
        return np.minimum(super().predict(X), bound)

    def _moments(self, train: Array, test: Array, width: float) -> tuple[Array, Array]:
        """H (b, b) and h (b,) of a part of the data."""
        of_train, of_test = (sum_outer_products(part, self.centres_, width) / len(part) for part in (train, test))
        h: Array = rbf_features(test, self.centres_, width).mean(0)
        return (1 - self.alpha) * of_train + self.alpha * of_test, h


def _solve(H: Array, h: Array, penalty: float) -> Array:
    coef: Array = np.maximum(np.linalg.solve(H + penalty * np.eye(len(H)), h), 0)
    return coef


def _held_out(moments: list[tuple[Array, Array]], penalty: float) -> float:
    """The held-out objective 1/2 b'Hb - h'b, averaged over folds of nearly equal size."""
    total = 0.0
    for k, (H_out, h_out) in enumerate(moments):
        H, h = (np.mean([part[i] for j, part in enumerate(moments) if j != k], axis=0) for i in (0, 1))
        coef = _solve(H, h, penalty)
        total += float(coef @ H_out @ coef / 2 - h_out @ coef)
    return total / len(moments)


def _penalties_to_try(penalty: float | str) -> tuple[float, ...]:
    if isinstance(penalty, str) and penalty == "cv":
        return PENALTIES
    if not is_positive(penalty):
        raise ValueError(f'penalty must be a positive number or "cv", got {penalty!r}')
    return (float(penalty),)
