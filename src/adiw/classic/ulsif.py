"""uLSIF: least-squares importance fitting in closed form (Kanamori et al. 2009)."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from adiw.argument_checks import is_positive
from adiw.classic.estimator import KernelModel, check_samples
from adiw.classic.rbf_features import Array, Width, choose_centres, rbf_features, sum_outer_products, widths_to_try

MOST_HELD_OUT = 1000  # training points held out one at a time


class ULSIF(KernelModel):
    """w(x) = sum_l coef_l psi_l(x) with coef = max(0, (H + penalty I)^-1 h).

    Args:
        width: sigma of the kernel, "median" (the median distance), or "cv" (the best leave-one-out score).
        penalty: lambda of the squared penalty, or "cv". If both are "cv", they are chosen jointly.
        centres: largest number of kernel centres, drawn from the test points.
        random_state: draws the centres.
        verbose: 1 prints a line of progress every two seconds.

    Attributes:
        weights_: (n_train,) estimated ratio at the training points; their mean is about one, but not constrained.
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
        verbose: int = 0,
    ) -> None:
        self.width, self.penalty, self.centres = width, penalty, centres
        self.random_state, self.verbose = random_state, verbose

    def fit(self, X_train: ArrayLike, y: ArrayLike | None = None, *, X_test: ArrayLike | None = None) -> ULSIF:
        """Estimate p_test / p_train from X_train (n, d) and X_test (m, d): call fit(X_train, X_test)."""
        train, test = check_samples(self, X_train, y, X_test)
        self.n_features_in_ = train.shape[1]
        random = check_random_state(self.random_state)
        self.centres_ = choose_centres(test, self.centres, random)
        widths = widths_to_try(self.width, train, test, self.random_state)
        penalties = _penalties_to_try(self.penalty, several=min(len(train), len(test)) > 1)
        held, searching = random.permutation(len(train))[:MOST_HELD_OUT], len(widths) * len(penalties) > 1
        best: tuple[float, float, float, Array] = (np.inf, 0.0, 0.0, np.zeros(0))
        for width in self._each(widths, "width"):
            H = sum_outer_products(train, self.centres_, width) / len(train)
            psi = partial(rbf_features, centres=self.centres_, width=width)
            psi_test = psi(test)
            held_out = LeaveOneOut(H, psi(train[held]), psi_test, len(train)) if searching else None
            for penalty in penalties:
                score = 0.0 if held_out is None else held_out.score(penalty)
                if score < best[0]:
                    coef = np.linalg.solve(H + penalty * np.eye(len(H)), psi_test.mean(0))
                    best = (score, width, penalty, np.maximum(coef, 0))
        _, self.width_, self.penalty_, self.coef_ = best
        self.weights_ = self.predict(train)
        return self


class LeaveOneOut:
    """Leave-one-out scores of a width for many penalties: mean_i 1/2 w_i(x_i^train)^2 - w_i(x_i^test).

    w_i is fitted without x_i^train and x_i^test. The smaller of the two samples is repeated, since a score over few
    pairs is noisy and selects a corner of the grid.

    Args:
        H: (b, b), the mean of psi psi' over all ``n`` training points.
        psi_train: (k, b), features of the training points to hold out; psi_test: (m, b), of all test points.
    """

    def __init__(self, H: Array, psi_train: Array, psi_test: Array, n: int) -> None:
        value, self.vector = np.linalg.eigh(H)
        self.value, self.n, self.m = np.maximum(value, 0)[:, None], n, len(psi_test)
        pairs = np.arange(max(len(psi_train), len(psi_test)))
        self.X, self.V = psi_train[pairs % len(psi_train)].T, psi_test[pairs % len(psi_test)].T
        U = psi_test.sum(0)[:, None] - self.V
        self.X_rotated, self.U_rotated = self.vector.T @ self.X, self.vector.T @ U  # in the eigenbasis of H

    def score(self, penalty: float) -> float:
        """The score of one penalty.

        With x = psi(x_i^train), v = psi(x_i^test), B = H + penalty (n-1)/n I and u = m h - v, the matrix inversion
        lemma gives the coefficients of w_i:

            (n-1) / (n (m-1)) max(0, B^-1 u + B^-1 x (x'B^-1 u) / (n - x'B^-1 x)).
        """
        n, scale = self.n, (self.n - 1) / (self.n * (self.m - 1))
        shrunk = self.value + penalty * (n - 1) / n
        BX, BU = self.X_rotated / shrunk, self.U_rotated / shrunk
        correction = np.einsum("bk,bk->k", self.X_rotated, BU) / (n - np.einsum("bk,bk->k", self.X_rotated, BX))
        coef = np.maximum(self.vector @ (BU + BX * correction), 0)
        at_train, at_test = (scale * np.einsum("bk,bk->k", points, coef) for points in (self.X, self.V))
        return float(np.mean(at_train**2 / 2 - at_test))


def _penalties_to_try(penalty: float | str, several: bool) -> list[float]:
    if isinstance(penalty, str) and penalty == "cv":
        return [1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0] if several else [0.1]
    if not is_positive(penalty):
        raise ValueError(f'penalty must be a positive number or "cv", got {penalty!r}')
    return [float(penalty)]
