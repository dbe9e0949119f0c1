"""RuLSIF: the relative density ratio in closed form (Yamada et al. 2013)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adiw.argument_checks import is_number
from adiw.classic.estimator import check_samples
from adiw.classic.least_squares import LeastSquaresModel
from adiw.classic.rbf_features import Array, Width
from adiw.classic.search import Penalty


class RULSIF(LeastSquaresModel):
    """w(x) = sum_l coef_l psi_l(x), an estimate of p_test / (alpha p_test + (1 - alpha) p_train), at most 1 / alpha.

    coef = max(0, (H + penalty I)^-1 h) with H = (1 - alpha) mean_train psi psi' + alpha mean_test psi psi'. The bound
    makes it accurate where the plain ratio is large: its error does not depend on the largest ratio.

    Args:
        alpha: share of the test distribution below the ratio, from 0 (uLSIF) to below 1.
        width: sigma of the kernel, "median" (the median distance), or "cv" (by held-out folds, with a preference
            for a typical width).
        penalty: lambda of the squared penalty, or "cv" (by held-out folds, with a preference for 0.1, jointly with
            the width).
        centres: largest number of kernel centres, drawn from the test points.
        folds: folds of both samples, for "cv".
        random_state: draws the centres and the folds.
        verbose: 1 prints a line of progress every two seconds.

    Attributes:
        weights_: (n_train,) estimated relative ratio at the training points, at most 1 / alpha.
        coef_, centres_, width_, penalty_: the fitted model.
        multiple_: factor of coef_ that is best on held-out folds; one for a given width and penalty.
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
        penalty: Penalty = "cv",
        centres: int = 100,
        folds: int = 10,
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
        H, h = self._fit(train, test, self.alpha)
        self.divergence_ = float(h @ self.coef_ - self.coef_ @ H @ self.coef_ / 2 - 0.5)
        return self

    def predict(self, X: ArrayLike) -> Array:
        """The estimated relative ratio at each row of X: (n,), at most 1 / alpha."""
        bound = 1 / self.alpha if self.alpha > 0 else np.inf
        return np.minimum(super().predict(X), bound)
