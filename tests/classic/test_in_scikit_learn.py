"""The classic estimators inside scikit-learn: pipelines, metadata routing, grid search, its own checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from adiw.classic import KLIEP, KMM, LSIF, RULSIF, ULSIF, ClassifierRatio
from tests.oracles.problems import gaussian_shift

ESTIMATORS = [KMM(width=0.5), KLIEP(width=0.5), LSIF(width=0.5), ULSIF(width=0.5, penalty=0.1)]
ESTIMATORS += [RULSIF(0.1, width=0.5, penalty=0.1), ClassifierRatio()]
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)


@pytest.fixture
def routing() -> Iterator[None]:
    with config_context(enable_metadata_routing=True):
        yield


@pytest.fixture(scope="module")
def samples() -> tuple[np.ndarray, np.ndarray]:
    """Two samples whose columns have very different scales."""
    train, test = gaussian_shift(dim=2).sample(0, 300, 80)
    scale = np.array([100.0, 0.01])
    return train * scale, test * scale


@every_estimator
@pytest.mark.usefixtures("routing")
def test_a_pipeline_transforms_both_samples(estimator: BaseEstimator, samples: tuple[np.ndarray, np.ndarray]) -> None:
    train, test = samples
    last = clone(estimator).set_fit_request(X_test=True)
    pipeline = Pipeline([("scale", StandardScaler()), ("ratio", last)], transform_input=["X_test"])
    fit = clone(pipeline).fit(train, X_test=test)
    scale = StandardScaler().fit(train)
    small_critic = clone(estimator).fit(scale.transform(train), scale.transform(test))
    np.testing.assert_array_equal(fit[-1].weights_, small_critic.weights_)
    np.testing.assert_array_equal(fit.predict(test), small_critic.predict(scale.transform(test)))
    assert fit[-1].weights_.std() > 0.2  # the weights show the shift


@every_estimator
def test_without_routing_y_is_passed_on_unchanged(
    estimator: BaseEstimator, samples: tuple[np.ndarray, np.ndarray]
) -> None:
    train, test = samples
    scale = StandardScaler().fit(train)
    fit = make_pipeline(StandardScaler(), clone(estimator)).fit(train, scale.transform(test))
    small_critic = clone(estimator).fit(scale.transform(train), X_test=scale.transform(test))
    np.testing.assert_array_equal(fit[-1].weights_, small_critic.weights_)


@every_estimator
@pytest.mark.usefixtures("routing")
def test_the_second_sample_is_the_only_metadata(estimator: BaseEstimator) -> None:
    assert estimator.get_metadata_routing().fit.requests == {"X_test": None}
    assert estimator.get_metadata_routing().score.requests == {"X_test": None}


@every_estimator
def test_labels_as_y_are_ignored_beside_x_test(
    estimator: BaseEstimator, samples: tuple[np.ndarray, np.ndarray]
) -> None:
    train, test = samples
    fit = clone(estimator).fit(train, np.zeros(len(train)), X_test=test)
    np.testing.assert_array_equal(fit.weights_, clone(estimator).fit(train, test).weights_)


@every_estimator
def test_a_missing_second_sample_is_an_error(estimator: BaseEstimator) -> None:
    name = type(estimator).__name__
    with pytest.raises(ValueError, match=rf"{name} compares two samples: call fit\(X_train, X_test\)"):
        clone(estimator).fit(np.zeros((4, 1)))


@pytest.mark.parametrize("estimator", ESTIMATORS[:-1], ids=lambda e: type(e).__name__)
def test_grid_search_finds_a_width_near_the_best(estimator: BaseEstimator) -> None:
    problem = gaussian_shift()
    train, test = problem.sample(0, 400, 400)  # equal sizes, so that both are split
    widths = [0.01, 0.5, 30.0]
    search = GridSearchCV(clone(estimator), {"width": widths}, cv=3).fit(train, test)
    true = problem.ratio(train)
    errors = [np.square(clone(estimator).set_params(width=w).fit(train, test).predict(train) - true) for w in widths]
    assert search.best_params_ == {"width": 0.5}
    assert int(np.argmin([error.mean() for error in errors])) == 1
    assert search.best_estimator_.predict(train).shape == (400,)


@every_estimator
def test_the_score_falls_short_of_the_true_ratio_by_half_the_squared_error(estimator: BaseEstimator) -> None:
    problem = gaussian_shift()
    fit = clone(estimator).fit(*problem.sample(0, 400, 400))
    train, test = problem.sample(1, 200_000, 200_000)
    error = np.square(fit.predict(train[:20_000]) - problem.ratio(train[:20_000])).mean()
    best = problem.ratio(test).mean() - np.square(problem.ratio(train)).mean() / 2
    score = fit.score(train[:20_000], test[:20_000])
    assert best - score == pytest.approx(error / 2, abs=0.05)


def test_the_weights_serve_as_sample_weight() -> None:
    """A weighted linear fit of a curve is best near the test points."""
    rng = np.random.default_rng(0)
    train, test = rng.normal(0.0, 1.0, (800, 1)), rng.normal(1.0, 0.3, (200, 1))
    y, y_test = np.square(train[:, 0]), np.square(test[:, 0])
    weights = KLIEP().fit(train, test).weights_
    plain = LinearRegression().fit(train, y)
    weighted = LinearRegression().fit(train, y, sample_weight=weights)
    errors = [np.square(model.predict(test) - y_test).mean() for model in (plain, weighted)]
    assert errors[1] < 0.2 * errors[0]


class OneSample:
    """Compares a sample with itself: scikit-learn's checks call fit(X, y) with labels, not with a second sample."""

    def fit(self, X: Any, y: Any = None) -> Any:
        return super().fit(X, X_test=X)  # type: ignore[misc]

    def score(self, X: Any, y: Any = None) -> Any:
        return super().score(X, X_test=X)  # type: ignore[misc]


class OneKMM(OneSample, KMM): ...


class OneKLIEP(OneSample, KLIEP): ...


class OneLSIF(OneSample, LSIF): ...


class OneULSIF(OneSample, ULSIF): ...


class OneRULSIF(OneSample, RULSIF): ...


class OneClassifierRatio(OneSample, ClassifierRatio): ...


ONES = [OneKMM(), OneKLIEP(width="median"), OneLSIF(width="median"), OneULSIF(width="median", penalty=0.1)]
ONES += [OneRULSIF(width="median", penalty=0.1), OneClassifierRatio()]


@parametrize_with_checks(ONES)
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    """All of scikit-learn's checks."""
    check(estimator)
