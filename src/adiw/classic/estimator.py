"""What the estimators share: checked input, and the ratio of a bump model at any point."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_array, check_is_fitted

from adiw.arguments import check_count, is_positive
from adiw.classic.bumps import Array, bumps, candidate_widths, chunks, median_distance

LARGEST = 1e18
Width = float | Literal["cv", "median"]


def check_pair(
    estimator: Any, X_train: ArrayLike, y: ArrayLike | None, X_test: ArrayLike | None
) -> tuple[Array, Array]:
    """Both samples as finite float64 matrices with the same columns; the second is X_test, or y where it is None."""
    X_test = y if X_test is None else X_test
    _check_settings(estimator)
    if X_test is None:
        raise ValueError(f"{type(estimator).__name__} compares two samples: call fit(X_train, X_test)")
    train, test = _matrix(estimator, X_train, "X_train"), _matrix(estimator, X_test, "X_test")
    if train.shape[1] != test.shape[1]:
        raise ValueError(f"X_train has {train.shape[1]} columns and X_test {test.shape[1]}: they must agree")
    for name, sample in (("X_train", train), ("X_test", test)):
        _check_size(name, sample)
    return train, test


def _check_settings(estimator: Any) -> None:
    """Refuse counts and tolerances that are none; those that an estimator does not have are passed over."""
    for name, least in (("centres", 1), ("folds", 2), ("block", 2), ("max_steps", 1)):
        check_count(name, getattr(estimator, name, least), least)
    tolerance = getattr(estimator, "tolerance", 1.0)
    if not is_positive(tolerance):
        raise ValueError(f"tolerance must be a positive number, got {tolerance!r}")


def check_points(estimator: Any, X: ArrayLike) -> Array:
    """New points for a fitted estimator, as a finite float64 matrix with the columns of the fit."""
    check_is_fitted(estimator, "width_")
    points = _matrix(estimator, X, "X")
    if points.shape[1] != estimator.n_features_in_:
        name, expected = type(estimator).__name__, estimator.n_features_in_
        raise ValueError(f"X has {points.shape[1]} features, but {name} is expecting {expected} features as input")
    _check_size("X", points)
    return points


def _matrix(estimator: Any, X: ArrayLike, name: str) -> Array:
    """A finite float64 matrix that torch may share: one that is read-only, such as a memory map, is copied."""
    checked = check_array(X, dtype=np.float64, input_name=name, estimator=estimator)
    return np.require(checked, requirements="W")


def _check_size(name: str, X: Array) -> None:
    """Refuse numbers whose squares overflow, here or in float32."""
    if np.abs(X).max() > LARGEST:
        raise ValueError(f"{name} has numbers beyond {LARGEST:g}, whose squares overflow: scale its columns first")


def widths_to_try(width: Width, X_train: Array, X_test: Array, random_state: Any) -> list[float]:
    """The width itself, the median heuristic's, or the candidates for cross-validation."""
    if isinstance(width, str) and width in ("cv", "median"):
        median = median_distance(X_train, X_test, check_random_state(random_state))
        return (
            candidate_widths(median) if width == "cv" and len(X_test) > 1 else [median]
        )  # one point: none to hold out
    if not is_positive(width):
        raise ValueError(f'width must be a positive number, "median" or "cv", got {width!r}')
    return [float(width)]


class RatioEstimator(BaseEstimator):  # type: ignore[misc]
    """What scikit-learn needs of an estimator of two samples: the second is in the place of y, or metadata X_test."""

    __metadata_request__fit: ClassVar = {"X_train": UNUSED}  # it is X under another name, and no metadata
    __metadata_request__score: ClassVar = {"X_train": UNUSED}

    def score(self, X_train: ArrayLike, y: ArrayLike | None = None, *, X_test: ArrayLike | None = None) -> float:
        """mean w(x_test) - mean w(x_train)^2 / 2, on samples that the fit did not see; more is better.

        Its expectation is, up to a constant, minus half the mean squared distance of w from the ratio itself.
        """
        train, test = check_pair(self, X_train, y, X_test)
        return float(self.predict(test).mean() - np.square(self.predict(train)).mean() / 2)


class BumpModel(RatioEstimator):
    """w(x) = sum_l coef_l psi_l(x), with ``centres_``, ``coef_`` and ``width_`` from a fit."""

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """The estimated ratio p_test / p_train at each row of X: (n,), on the scale of ``weights_``."""
        points = check_points(self, X)
        used = self.coef_ > 0
        if not used.any():
            return np.zeros(len(points))
        parts = [bumps(part, self.centres_[used], self.width_) @ self.coef_[used] for part in chunks(points)]
        return np.concatenate(parts)
