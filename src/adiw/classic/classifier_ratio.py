"""The density ratio from a probabilistic classifier that separates the two samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from adiw.argument_checks import is_positive
from adiw.classic.estimator import DensityRatioEstimator, check_points, check_samples
from adiw.classic.rbf_features import Array

FOLDS = 3


class ClassifierRatio(DensityRatioEstimator):
    """w(x) = n_train / n_test * P(test | x) / P(train | x), with the probabilities of any scikit-learn classifier.

    Args:
        classifier: has ``predict_proba``; None for logistic regression on the columns, with or without their
            products, by the log loss of held-out folds. With them it can represent the ratio of any two Gaussians and
            needs few columns. Calibrated probabilities matter more than accuracy: wrap boosted trees in
            ``CalibratedClassifierCV``. ``QuadraticDiscriminantAnalysis()`` is the ratio of two fitted Gaussians.
        upper: largest weight. A classifier that is certain would give an infinite one.

    Attributes:
        weights_: (n_train,) estimated ratio at the training points; their mean is about one, but not constrained.
        classifier_: the fitted classifier; class 1 is the test sample.

    >>> rng = np.random.default_rng(0)
    >>> fit = ClassifierRatio().fit(rng.normal(0, 1, (2000, 1)), rng.normal(0.5, 1, (2000, 1)))
    >>> bool(abs(fit.predict([[0.25]])[0] - 1) < 0.1)  # where the densities are equal
    True
    """

    def __init__(self, classifier: Any = None, upper: float = 1000.0) -> None:
        self.classifier, self.upper = classifier, upper

    def fit(
        self, X_train: ArrayLike, y: ArrayLike | None = None, *, X_test: ArrayLike | None = None
    ) -> ClassifierRatio:
        """Estimate p_test / p_train from X_train (n, d) and X_test (m, d): call fit(X_train, X_test)."""
        train, test = check_samples(self, X_train, y, X_test)
        if not is_positive(self.upper):
            raise ValueError(f"upper must be a positive number, got {self.upper!r}")
        made = _logistic(min(len(train), len(test))) if self.classifier is None else self.classifier
        if not hasattr(made, "predict_proba"):
            raise TypeError(f"classifier must have predict_proba, got {made!r}: use a probabilistic classifier")
        self.n_features_in_ = train.shape[1]
        label = np.repeat([0, 1], [len(train), len(test)])
        self.classifier_ = clone(made).fit(np.concatenate([train, test]), label)
        self.prior_ = len(train) / len(test)
        self.weights_ = self.predict(train)
        return self

    def predict(self, X: ArrayLike) -> Array:
        """The estimated ratio p_test / p_train at each row of X: (n,), at most ``upper``."""
        points = check_points(self, X, "classifier_")
        of_train, of_test = self.classifier_.predict_proba(points).T
        ratio: Array = self.prior_ * of_test / np.maximum(of_train, np.finfo(float).tiny)
        return np.minimum(ratio, self.upper)


def _logistic(points: int) -> Any:
    """Logistic regression with a linear or a quadratic score, on standardised columns; quadratic without folds."""
    products = PolynomialFeatures(degree=2, include_bias=False)
    model = make_pipeline(StandardScaler(), products, StandardScaler(), LogisticRegression(C=100.0, max_iter=1000))
    if points < FOLDS:
        return model
    return GridSearchCV(model, {"polynomialfeatures__degree": [1, 2]}, scoring="neg_log_loss", cv=FOLDS)
