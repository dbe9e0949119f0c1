"""The estimators' interface: parameters, clone, new points, blocks, invalid input."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from adiw.classic import KLIEP, KMM, LSIF, RULSIF, ULSIF, ClassifierRatio, kliep, non_negative_qp
from tests.oracles.problems import gaussian_shift

ESTIMATORS = [KMM(), KLIEP(), LSIF(), ULSIF(), RULSIF(), ClassifierRatio()]
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)


@pytest.fixture(scope="module")
def samples():
    return gaussian_shift(dim=3).sample(0, 300, 80)


def test_the_suite_covers_the_package():
    import adiw.classic

    assert {type(e).__name__ for e in ESTIMATORS} == set(adiw.classic.__all__)


@every_estimator
def test_clone_and_refit_give_the_same_weights(estimator, samples):
    first, second = clone(estimator).fit(*samples), clone(estimator).fit(*samples)
    np.testing.assert_array_equal(first.weights_, second.weights_)
    assert first.weights_.shape == (300,)
    assert np.isfinite(first.weights_).all()
    assert (first.weights_ >= 0).all()
    assert estimator.get_params() == clone(estimator).get_params()


@every_estimator
def test_fit_does_not_change_the_parameters(estimator, samples):
    before = estimator.get_params()
    clone(estimator).fit(*samples)
    assert estimator.get_params() == before


@every_estimator
def test_new_points_are_on_the_scale_of_the_weights(estimator, samples):
    train, test = samples
    fit = clone(estimator).fit(train, test)
    fresh, _ = gaussian_shift(dim=3).sample(1, 300, 80)
    assert fit.predict(fresh).mean() == pytest.approx(fit.weights_.mean(), rel=0.35)
    if not isinstance(estimator, KMM):
        np.testing.assert_allclose(fit.predict(train), fit.weights_, rtol=1e-9)


@every_estimator
def test_far_away_points_get_finite_weights(estimator, samples):
    weights = clone(estimator).fit(*samples).predict(np.full((2, 3), 1e6))
    assert np.isfinite(weights).all()
    assert (weights >= 0).all()


@every_estimator
def test_predict_before_fit_and_with_other_columns_are_errors(estimator, samples):
    with pytest.raises(NotFittedError):
        clone(estimator).predict(samples[0])
    with pytest.raises(ValueError, match=r"X has 2 features, but \w+ is expecting 3 features"):
        clone(estimator).fit(*samples).predict(np.zeros((4, 2)))


@every_estimator
@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        (np.zeros((4, 2)), np.zeros((4, 3)), "X_train has 2 columns and X_test 3"),
        (np.full((4, 1), np.nan), np.zeros((4, 1)), "NaN"),
        (np.zeros((0, 1)), np.zeros((4, 1)), "0 sample"),
        (np.zeros(4), np.zeros((4, 1)), "1D array"),
    ],
)
def test_bad_samples_are_errors(estimator, train, test, message):
    with pytest.raises(ValueError, match=message):
        clone(estimator).fit(train, test)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (KMM(width="cv"), "no held-out score"),
        (KMM(width=-1.0), "width must be a positive number"),
        (KMM(upper=0.5), "upper must be at least 1"),
        (KMM(slack=-0.1), "slack must be"),
        (KMM(block=1), "block must be"),
        (KLIEP(width="auto"), "width must be a positive number"),
        (KLIEP(penalty=-0.1), 'penalty must be a number from 0 or "cv", got -0.1'),
        (LSIF(penalty=-1.0), "penalty must be"),
        (ULSIF(penalty=0.0), "penalty must be"),
    ],
)
def test_bad_settings_are_errors(estimator, message, samples):
    with pytest.raises(ValueError, match=message):
        estimator.fit(*samples)


@every_estimator
def test_one_test_point_and_two_training_points(estimator):
    fit = clone(estimator).fit(np.array([[0.0], [1.0]]), np.array([[0.0]]))
    assert np.isfinite(fit.weights_).all()
    assert fit.weights_[0] >= fit.weights_[1]


@every_estimator
def test_identical_points_have_equal_weights(estimator):
    fit = clone(estimator).fit(np.zeros((10, 2)), np.zeros((5, 2)))
    np.testing.assert_allclose(fit.weights_, fit.weights_[0], rtol=1e-5)
    assert fit.weights_[0] == pytest.approx(1, abs=0.2)


def test_blocks_cover_all_samples_and_are_close_to_one_solve():
    problem = gaussian_shift()
    train, test = problem.sample(0, 1050, 200)
    whole = KMM(width=0.5, tolerance=1e-4).fit(train, test)
    blocks = KMM(width=0.5, tolerance=1e-4, block=100).fit(train, test)
    near = np.abs(train[:, 0] - 1) < 0.5  # the true ratio is at least 1.7 here, so no weight may be zero
    assert (blocks.predict(train)[near] > 0.5).all()
    assert np.corrcoef(blocks.predict(train), whole.predict(train))[0, 1] > 0.98
    assert blocks.weights_.mean() == pytest.approx(whole.weights_.mean(), rel=0.1)


def test_too_few_steps_give_a_warning():
    train, test = gaussian_shift().sample(0, 200, 50)
    with pytest.warns(UserWarning, match="KMM: .* within .* of the optimum after 3 steps, but tolerance is 1e-09"):
        KMM(width=0.5, max_steps=3, tolerance=1e-9).fit(train, test)


def test_test_points_far_from_all_training_points_are_an_error():
    with pytest.raises(ValueError, match="use a larger width"):
        KLIEP(width=0.1).fit(np.zeros((5, 1)), np.full((3, 1), 100.0))


@pytest.mark.parametrize("seed", range(5))
def test_non_negative_qp_satisfies_the_optimality_conditions(seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(6, 20))  # rank 6 of 20: singular, as with neighbouring kernel centres
    A, c = root.T @ root, root.T @ rng.normal(size=6)
    x = non_negative_qp.solve(A, c)
    gradient = A @ x - c
    assert (x >= 0).all()
    assert gradient.min() >= -1e-8
    assert abs(gradient @ x) <= 1e-8


@pytest.mark.parametrize("tolerance", [0.0, float("nan"), "small"])
def test_a_tolerance_is_a_positive_number(tolerance, samples):
    with pytest.raises(ValueError, match="tolerance must be a positive number"):
        KLIEP(tolerance=tolerance).fit(*samples)


@every_estimator
def test_numbers_whose_squares_overflow_are_an_error(estimator, samples):
    X_train, X_test = samples
    with pytest.raises(ValueError, match=r"X_test has numbers beyond .*: scale its columns first"):
        clone(estimator).fit(X_train, X_test * 1e200)
    with pytest.raises(ValueError, match=r"X has numbers beyond .*: scale its columns first"):
        clone(estimator).fit(X_train, X_test).predict(X_test * 1e200)


def test_kliep_warns_when_it_is_not_at_the_optimum(samples, monkeypatch):
    monkeypatch.setattr(kliep, "MOST_STEPS", 2)
    with pytest.warns(UserWarning, match="KLIEP: .* not within .* of the optimum after 2 Newton steps"):
        KLIEP(width=1.0).fit(*samples)


def test_a_minimum_at_zero_stays_at_zero():
    assert non_negative_qp.solve(np.eye(2), np.array([-1.0, -2.0]), start=np.ones(2)).tolist() == [0.0, 0.0]


def test_a_search_does_not_warn_of_widths_that_are_not_chosen() -> None:
    random = np.random.default_rng(3)
    train, test = np.exp(random.normal(size=(256, 1))), np.exp(random.normal(-1, size=(200, 1)))
    assert np.isfinite(KLIEP(random_state=0).fit(train, test).weights_).all()  # warnings are errors in the tests


@pytest.mark.parametrize("estimator", [KLIEP(centres=1), ULSIF(centres=1)], ids=lambda e: type(e).__name__)
def test_a_search_with_one_centre_keeps_it_in_its_own_fold(estimator, samples):
    fit = clone(estimator).fit(*samples)
    assert fit.coef_.shape == (1,)
    assert np.isfinite(fit.weights_).all()
