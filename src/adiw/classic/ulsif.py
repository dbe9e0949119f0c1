"""uLSIF: least-squares importance fitting in closed form (Kanamori et al. 2009)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from adiw.classic.bumps import Array, bumps, choose_centres, sum_products
from adiw.classic.estimator import BumpModel, Width, check_pair, widths_to_try

PAIRS = 1000  # at most this many training points are left out in turn


class ULSIF(BumpModel):
    """w(x) = sum_l coef_l psi_l(x) with coef = max(0, (H + penalty I)^-1 h).

    Args:
        width: sigma of the bumps, "median" (median distance), or "cv" (best leave-one-out score).
        penalty: lambda of the squared penalty, or "cv". Both "cv" are chosen together.
        centres: at most this many test points carry a bump.
        random_state: draws the centres.

    Attributes:
        weights_: (n_train,) estimated ratio at the training points; the mean is about one but not held there.
        coef_, centres_, width_, penalty_: the fitted model.

    >>> rng = np.random.default_rng(0)
    >>> fit = ULSIF().fit(rng.normal(0, 1, (500, 1)), rng.normal(1, 0.5, (100, 1)))
    >>> bool(fit.predict([[1.0]])[0] > 5 * fit.predict([[-1.0]])[0])
    True
    """

    def __init__(
        self,
        width: Width = "cv",
        penalty: float | Literal["cv"] = "cv",
        centres: int = 100,
        random_state: Any = 0,
    ) -> None:
        self.width, self.penalty, self.centres, self.random_state = width, penalty, centres, random_state

    def fit(self, X_train: ArrayLike, X_test: ArrayLike) -> ULSIF:
        """Estimate p_test / p_train from X_train (n, d) and X_test (m, d)."""
        train, test = check_pair(self, X_train, X_test)
        random = check_random_state(self.random_state)
        self.centres_ = choose_centres(test, self.centres, random)
        widths = widths_to_try(self.width, train, test, self.random_state)
        penalties = _penalties_to_try(self.penalty, pairs_exist=min(len(train), len(test)) > 1)
        kept = random.permutation(len(train))[:PAIRS]
        best: tuple[float, float, float, Array] = (np.inf, 0.0, 0.0, np.zeros(0))
        for width in widths:
            inverse = Inverse(sum_products(train, self.centres_, width) / len(train))
            psi_test = bumps(test, self.centres_, width)
            psi_train = bumps(train[kept], self.centres_, width) if len(widths) * len(penalties) > 1 else None
            for penalty in penalties:
                score = 0.0 if psi_train is None else leave_one_out(inverse, psi_train, psi_test, penalty, len(train))
                if score < best[0]:
                    coef = np.maximum(inverse.apply(psi_test.mean(0)[:, None], penalty)[:, 0], 0)
                    best = (score, width, penalty, coef)
        _, self.width_, self.penalty_, self.coef_ = best
        self.weights_ = self.predict(train)
        return self


class Inverse:
    """(H + penalty I)^-1 for many penalties from one eigendecomposition."""

    def __init__(self, H: Array) -> None:
        self.value, self.vector = np.linalg.eigh(H)

    def apply(self, columns: Array, penalty: float) -> Array:
        shrunk = (self.vector.T @ columns) / (np.maximum(self.value, 0) + penalty)[:, None]
        product: Array = self.vector @ shrunk
        return product


def leave_one_out(inverse: Inverse, psi_train: Array, psi_test: Array, penalty: float, n: int) -> float:
    """mean_i 1/2 w_i(x_i^train)^2 - w_i(x_i^test), where w_i is fitted without x_i^train and x_i^test.

    The smaller of the two samples is gone through several times: with few test points a score over as few training
    points is too noisy, and the search would end in a corner of the grid.

    Without x = psi(x_i^train) and v = psi(x_i^test), with B = H + penalty (n-1)/n I and u = m h - v, the matrix
    inversion lemma gives the coefficients of every w_i at once:

        (n-1) / (n (m-1)) max(0, B^-1 u + B^-1 x (x'B^-1 u) / (n - x'B^-1 x)).
    """
    m, pairs = len(psi_test), max(len(psi_train), len(psi_test))
    X, V = psi_train[np.arange(pairs) % len(psi_train)].T, psi_test[np.arange(pairs) % m].T
    U = psi_test.sum(0)[:, None] - V
    shrunk = penalty * (n - 1) / n
    BX, BU = inverse.apply(X, shrunk), inverse.apply(U, shrunk)
    correction = (X * BU).sum(0) / (n - (X * BX).sum(0))
    coef = np.maximum((n - 1) / (n * (m - 1)) * (BU + BX * correction), 0)
    return float(((X * coef).sum(0) ** 2 / 2 - (V * coef).sum(0)).mean())


def _penalties_to_try(penalty: float | str, pairs_exist: bool) -> list[float]:
    if penalty == "cv":
        return [1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0] if pairs_exist else [0.1]
    if isinstance(penalty, str) or not 0 < penalty < float("inf"):
        raise ValueError(f'penalty must be a positive number or "cv", got {penalty!r}')
    return [float(penalty)]
