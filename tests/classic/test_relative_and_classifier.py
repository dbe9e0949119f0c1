"""RULSIF and ClassifierRatio: closed forms, densratio, and known ratios of Gaussians."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.ensemble import RandomForestClassifier
from sklearn.svm import LinearSVC

from adiw.classic import RULSIF, ULSIF, ClassifierRatio
from tests.oracles.problems import Problem, gaussian_shift, gaussian_shift_all

WIDTH = 0.5
KNOWN = [
    gaussian_shift(),
    gaussian_shift(test_mean=0.5, test_std=0.8),
    gaussian_shift(dim=5, test_mean=0.5, test_std=0.7),
    gaussian_shift_all(dim=5, shift=0.3, test_std=0.9),
]
known = pytest.mark.parametrize("problem", KNOWN, ids=["1d far", "1d near", "5d in one column", "5d in all"])


def relative(problem: Problem, alpha: float, z: Any) -> Any:
    ratio = problem.ratio(z)
    return ratio / (alpha * ratio + 1 - alpha)


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5])
def test_the_coefficients_solve_the_ridge_system(alpha: float) -> None:
    train, test = gaussian_shift(dim=2).sample(0, 200, 40)
    fit = RULSIF(alpha, width=WIDTH, penalty=0.1).fit(train, test)
    psi_train, psi_test = (np.exp(-cdist(x, fit.centres_, "sqeuclidean") / (2 * WIDTH**2)) for x in (train, test))
    H = (1 - alpha) * psi_train.T @ psi_train / 200 + alpha * psi_test.T @ psi_test / 40
    expected = np.maximum(np.linalg.solve(H + 0.1 * np.eye(40), psi_test.mean(0)), 0)
    np.testing.assert_allclose(fit.coef_, expected, atol=1e-10)


def test_alpha_zero_is_ulsif() -> None:
    train, test = gaussian_shift(dim=2).sample(0, 200, 40)
    found = RULSIF(0.0, width=WIDTH, penalty=0.1).fit(train, test)
    np.testing.assert_allclose(found.weights_, ULSIF(width=WIDTH, penalty=0.1).fit(train, test).weights_, rtol=1e-9)


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.5])
def test_weights_are_at_most_one_over_alpha(alpha: float) -> None:
    train, test = gaussian_shift(test_mean=2.5, test_std=0.3).sample(0, 500, 100)  # the largest ratio is above fifty
    fit = RULSIF(alpha).fit(train, test)
    assert fit.weights_.max() <= 1 / alpha
    assert fit.weights_.max() > 0.8 / alpha


def densratio(train: Any, test: Any, alpha: float, seed: int, **settings: Any) -> Any:
    """The weights of the peer's RuLSIF. It takes the logarithm of weights, which may be zero."""
    peer = pytest.importorskip("densratio", reason="the peer densratio is not installed")
    np.random.seed(seed)
    with np.errstate(divide="ignore"):
        fit = peer.densratio(test, train, method="RuLSIF", alpha=alpha, verbose=False, **settings)
    return fit.compute_density_ratio(train)


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.4])
def test_the_same_model_as_densratio(alpha: float) -> None:
    train, test = gaussian_shift(dim=2).sample(1, 300, 60)
    theirs = densratio(train, test, alpha, 0, sigma_range=[WIDTH], lambda_range=[0.1], kernel_num=60)
    ours = RULSIF(alpha, width=WIDTH, penalty=0.1).fit(train, test)
    np.testing.assert_allclose(ours.weights_, theirs, atol=1e-6)


@known
def test_errors_are_at_most_those_of_densratio(problem: Problem) -> None:
    """Root mean squared error of the relative ratio, median of five seeds, both with their own search."""
    alpha, errors = 0.1, []
    for seed in range(5):
        train, test = problem.sample(seed, 600, 200)
        truth = relative(problem, alpha, train)
        weights = RULSIF(alpha, random_state=seed).fit(train, test).weights_, densratio(train, test, alpha, seed)
        errors.append([np.sqrt(np.mean(np.square(found - truth))) for found in weights])
    ours, theirs = np.median(errors, axis=0)
    assert ours <= 1.02 * theirs, (ours, theirs)


@known
def test_the_relative_ratio_of_gaussians_is_found(problem: Problem) -> None:
    train, test = problem.sample(0, 2000, 500)
    truth = relative(problem, 0.2, train)
    error = np.mean(np.square(RULSIF(0.2).fit(train, test).weights_ - truth))
    assert error < 0.75 * truth.var()


@known
def test_the_classifier_finds_the_ratio_of_gaussians(problem: Problem) -> None:
    """The log ratio of two Gaussians is quadratic, and so is the default classifier."""
    train, test = problem.sample(0, 4000, 2000)
    truth = problem.ratio(train)
    fit = ClassifierRatio().fit(train, test)
    assert np.mean(np.square(fit.weights_ - truth)) < 0.07 * truth.var()
    assert fit.weights_.mean() == pytest.approx(1, abs=0.05)


def test_the_classifier_has_products_of_columns_only_where_they_help() -> None:
    """The log ratio of two Gaussians is linear if their variances agree."""
    degrees = []
    for std in (1.0, 0.8):
        problem = gaussian_shift_all(dim=3, shift=0.3, test_std=std)
        fit = ClassifierRatio().fit(*problem.sample(0, 2000, 300))
        degrees.append(fit.classifier_.best_params_["polynomialfeatures__degree"])
    assert degrees == [1, 2]


def test_any_probabilistic_classifier() -> None:
    train, test = gaussian_shift().sample(0, 600, 300)
    fit = ClassifierRatio(RandomForestClassifier(min_samples_leaf=30, random_state=0)).fit(train, test)
    assert np.corrcoef(fit.weights_, gaussian_shift().ratio(train))[0, 1] > 0.8
    certain = ClassifierRatio(RandomForestClassifier(random_state=0), upper=7.0).fit(train, test)
    assert certain.predict(test).max() == 7.0


@pytest.mark.parametrize(
    ("estimator", "error", "message"),
    [
        (RULSIF(alpha=1.0), ValueError, "alpha must be a number from 0 to below 1, got 1.0"),
        (RULSIF(alpha=-0.1), ValueError, "alpha must be a number from 0 to below 1, got -0.1"),
        (RULSIF(penalty=0.0), ValueError, 'penalty must be a positive number or "cv", got 0.0'),
        (ClassifierRatio(upper=0), ValueError, "upper must be a positive number, got 0"),
        (ClassifierRatio(LinearSVC()), TypeError, "classifier must have predict_proba"),
    ],
)
def test_bad_settings(estimator: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        estimator.fit(*gaussian_shift().sample(0, 50, 20))
