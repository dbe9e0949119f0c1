"""What the estimators share: checked input, and the ratio of a bump model at any point."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted

from adiw.classic.bumps import Array, bumps, candidate_widths, chunks, median_distance

Width = float | Literal["cv", "median"]


def check_pair(estimator: Any, X_train: ArrayLike, X_test: ArrayLike) -> tuple[Array, Array]:
    """Both samples as finite float64 matrices with the same columns."""
    train: Array = check_array(X_train, dtype=np.float64, input_name="X_train", estimator=estimator)
    test: Array = check_array(X_test, dtype=np.float64, input_name="X_test", estimator=estimator)
    if train.shape[1] != test.shape[1]:
        raise ValueError(f"X_train has {train.shape[1]} columns and X_test {test.shape[1]}: they must agree")
    estimator.n_features_in_ = train.shape[1]
    return train, test


def check_points(estimator: Any, X: ArrayLike) -> Array:
    """New points for a fitted estimator, as a finite float64 matrix with the columns of the fit."""
    check_is_fitted(estimator, "width_")
    points: Array = check_array(X, dtype=np.float64, estimator=estimator)
    if points.shape[1] != estimator.n_features_in_:
        raise ValueError(f"X has {points.shape[1]} columns, but the fit had {estimator.n_features_in_}")
    return points


def widths_to_try(width: Width, X_train: Array, X_test: Array, random_state: Any) -> list[float]:
    """The width itself, the median heuristic's, or the candidates for cross-validation."""
    if width == "cv" or width == "median":
        median = median_distance(X_train, X_test, check_random_state(random_state))
        return (
            candidate_widths(median) if width == "cv" and len(X_test) > 1 else [median]
        )  # one point: none to hold out
    if isinstance(width, str) or not 0 < width < float("inf"):
        raise ValueError(f'width must be a positive number, "median" or "cv", got {width!r}')
    return [float(width)]


class BumpModel(BaseEstimator):  # type: ignore[misc]
    """w(x) = sum_l coef_l psi_l(x), with ``centres_``, ``coef_`` and ``width_`` from a fit."""

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """The estimated ratio p_test / p_train at each row of X: (n,), on the scale of ``weights_``."""
        points = check_points(self, X)
        used = self.coef_ > 0
        if not used.any():
            return np.zeros(len(points))
        parts = [bumps(part, self.centres_[used], self.width_) @ self.coef_[used] for part in chunks(points)]
        return np.concatenate(parts)
