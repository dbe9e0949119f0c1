"""Covariate shift in a table: the model will be used for customers of another age than those in the training set.

Only rows of the new population are needed, not their labels. The two-step estimators of ``adiw.classic`` weight the
training rows by how likely they are in the new population; any estimator with ``sample_weight`` takes these weights.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from adiw.classic import KLIEP

MARGIN = 0.3  # largest allowed ratio of the error with weights to the error without
Array = NDArray[np.float64]


def customers(rng: np.random.Generator, count: int, age: float, spread: float) -> Array:
    """Age in years, income in thousands, visits per year."""
    ages = rng.normal(age, spread, count)
    return np.column_stack([ages, 20 + 0.5 * ages + rng.normal(0, 5, count), rng.poisson(6, count)])


def spending(rng: np.random.Generator, X: Array) -> Array:
    """Quadratic in age, so that a linear model fits one age group at a time."""
    return 300 - 0.3 * np.square(X[:, 0] - 50) + 2 * X[:, 2] + rng.normal(0, 10, len(X))


def importance(X: Array, X_new: Array) -> Array:
    """How much more likely each row is in the new population, (n,), after the same scaling of both samples."""
    with config_context(enable_metadata_routing=True):
        ratio = KLIEP().set_fit_request(X_test=True)
        pipeline = make_pipeline(StandardScaler(), ratio, transform_input=["X_test"])
        weights: Array = pipeline.fit(X, X_test=X_new)[-1].weights_
    return weights


def main(seed: int = 0) -> dict[str, float]:
    """Root mean squared error among the new customers, with and without weights."""
    rng = np.random.default_rng(seed)
    X, X_new = customers(rng, 1500, age=42, spread=12), customers(rng, 500, age=60, spread=5)
    y, y_new = spending(rng, X), spending(rng, X_new)
    models = {
        "plain": LinearRegression().fit(X, y),
        "weighted": LinearRegression().fit(X, y, sample_weight=importance(X, X_new)),
    }
    errors = {name: float(np.sqrt(np.square(m.predict(X_new) - y_new).mean())) for name, m in models.items()}
    print(f"root mean squared error: {errors['plain']:.1f} plain, {errors['weighted']:.1f} weighted")
    assert errors["weighted"] <= MARGIN * errors["plain"], errors
    return errors


if __name__ == "__main__":
    main()
