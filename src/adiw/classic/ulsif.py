"""uLSIF: least-squares importance fitting in closed form (Kanamori et al. 2009)."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from adiw.classic.estimator import check_samples
from adiw.classic.least_squares import LeastSquaresModel
from adiw.classic.rbf_features import Width
from adiw.classic.search import Penalty


class ULSIF(LeastSquaresModel):
    """w(x) = sum_l coef_l psi_l(x) with coef = max(0, (H + penalty I)^-1 h).

    Args:
        width: sigma of the kernel, "median" (the median distance), or "cv" (by held-out folds, with a preference
            for a typical width).
        penalty: lambda of the squared penalty, or "cv" (by held-out folds, with a preference for 0.1, jointly with
            the width).
        centres: largest number of kernel centres, drawn from the test points.
        folds: folds of both samples, for "cv".
        random_state: draws the centres and the folds.
        verbose: 1 prints a line of progress every two seconds.

    Attributes:
        weights_: (n_train,) estimated ratio at the training points; their mean is about one, but not constrained.
        coef_, centres_, width_, penalty_: the fitted model.
        multiple_: factor of coef_ that is best on held-out folds; one for a given width and penalty.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> fit = ULSIF().fit(rng.normal(0, 1, (500, 1)), rng.normal(1, 0.5, (100, 1)))
    >>> bool(fit.predict([[1.0]])[0] > 5 * fit.predict([[-1.0]])[0])
    True
    """

    def __init__(
        self,
        width: Width = "cv",
        penalty: Penalty = "cv",
        centres: int = 100,
        folds: int = 10,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.width, self.penalty, self.centres = width, penalty, centres
        self.folds, self.random_state, self.verbose = folds, random_state, verbose

    def fit(self, X_train: ArrayLike, y: ArrayLike | None = None, *, X_test: ArrayLike | None = None) -> ULSIF:
        """Estimate p_test / p_train from X_train (n, d) and X_test (m, d): call fit(X_train, X_test)."""
        train, test = check_samples(self, X_train, y, X_test)
        self.n_features_in_ = train.shape[1]
        self._fit(train, test, alpha=0.0)
        return self
