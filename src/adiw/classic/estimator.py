"""The base classes of the estimators: input checks, the score, and the density ratio as a sum of RBF features."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_array, check_is_fitted

from adiw.argument_checks import check_count, is_positive
from adiw.classic.rbf_features import Array, chunks, rbf_features

LARGEST = 1e18
SECONDS = 2.0  # between two lines of progress
T = TypeVar("T")


class DensityRatioEstimator(BaseEstimator):  # type: ignore[misc]
    """A scikit-learn estimator of two samples: ``fit`` takes the second as y or as the metadata X_test."""

    __metadata_request__fit: ClassVar = {"X_train": UNUSED}  # X_train is scikit-learn's X, not metadata
    __metadata_request__score: ClassVar = {"X_train": UNUSED}

    verbose: int

    def _each(self, items: Sequence[T], what: str) -> Iterator[T]:
        """The items; with ``verbose``, a line says which of them is next, at most every two seconds."""
        reported = time.monotonic()
        for number, item in enumerate(items, 1):
            if self.verbose and time.monotonic() - reported > SECONDS:
                print(f"{type(self).__name__}: {what} {number} of {len(items)}", flush=True)
                reported = time.monotonic()
            yield item

    def score(self, X_train: ArrayLike, y: ArrayLike | None = None, *, X_test: ArrayLike | None = None) -> float:
        """mean w(x_test) - mean w(x_train)^2 / 2 on held-out samples; higher is better.

        Its expectation is, up to a constant, minus half the mean squared error of w over the training distribution.
        """
        train, test = check_samples(self, X_train, y, X_test)
        return float(self.predict(test).mean() - np.square(self.predict(train)).mean() / 2)


class KernelModel(DensityRatioEstimator):
    """w(x) = sum_l coef_l psi_l(x), with ``centres_``, ``coef_`` and ``width_`` from ``fit``."""

    def predict(self, X: ArrayLike) -> Array:
        """The estimated ratio p_test / p_train at each row of X: (n,), on the scale of ``weights_``."""
        points = check_points(self, X)
        used = self.coef_ > 0
        if not used.any():
            return np.zeros(len(points))
        parts = [rbf_features(part, self.centres_[used], self.width_) @ self.coef_[used] for part in chunks(points)]
        return np.concatenate(parts)


def check_samples(
    estimator: Any, X_train: ArrayLike, y: ArrayLike | None, X_test: ArrayLike | None
) -> tuple[Array, Array]:
    """Both samples as finite float64 matrices with the same columns. The second is X_test, or y if that is None."""
    X_test = y if X_test is None else X_test
    _check_settings(estimator)
    if X_test is None:
        raise ValueError(f"{type(estimator).__name__} compares two samples: call fit(X_train, X_test)")
    train, test = _matrix(estimator, X_train, "X_train"), _matrix(estimator, X_test, "X_test")
    if train.shape[1] != test.shape[1]:
        raise ValueError(f"X_train has {train.shape[1]} columns and X_test {test.shape[1]}: they must agree")
    return train, test


def check_points(estimator: Any, X: ArrayLike, fitted: str = "width_") -> Array:
    """New points for a fitted estimator: a finite float64 matrix with as many columns as in ``fit``."""
    check_is_fitted(estimator, fitted)
    points = _matrix(estimator, X, "X")
    if points.shape[1] != estimator.n_features_in_:
        name, expected = type(estimator).__name__, estimator.n_features_in_
        raise ValueError(f"X has {points.shape[1]} features, but {name} is expecting {expected} features as input")
    return points


def _check_settings(estimator: Any) -> None:
    """Check those of these settings that the estimator has."""
    for name, least in (("centres", 1), ("folds", 2), ("block", 2), ("max_steps", 1)):
        check_count(name, getattr(estimator, name, least), least)
    tolerance = getattr(estimator, "tolerance", 1.0)
    if not is_positive(tolerance):
        raise ValueError(f"tolerance must be a positive number, got {tolerance!r}")


def _matrix(estimator: Any, X: ArrayLike, name: str) -> Array:
    """A finite float64 matrix whose squares do not overflow, here or in float32."""
    checked = check_array(X, dtype=np.float64, input_name=name, estimator=estimator)
    if np.abs(checked).max() > LARGEST:
        raise ValueError(f"{name} has numbers beyond {LARGEST:g}, whose squares overflow: scale its columns first")
    return np.require(checked, requirements="W")  # torch does not share read-only memory, such as a memory map
