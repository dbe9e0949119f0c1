"""ReweightedClassifier: accuracy under wrong labels, and scikit-learn's own checks."""

from __future__ import annotations

import copy
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("skorch", reason="needs the extra adiw[sklearn]")

from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from skorch.callbacks import LRScheduler

from adiw.divergences import KL
from adiw.integrations.sklearn import ReweightedClassifier

MARGIN = 0.10  # of accuracy on digits with 40% wrong labels, over the same classifier without trusted samples
untrusted = pytest.mark.filterwarnings("ignore:ReweightedClassifier.fit without trusted samples:UserWarning")


class Noisy(NamedTuple):
    """A classification with 40% wrong labels, some trusted samples, and a test set."""

    X: np.ndarray
    given: np.ndarray
    true: np.ndarray
    X_val: np.ndarray
    y_val: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    def fit(self, model: Any) -> Any:
        return model.fit(self.X, self.given, X_val=self.X_val, y_val=self.y_val)


def noisy(X: np.ndarray, y: np.ndarray, num_classes: int, test: int, trusted: int) -> Noisy:
    X, X_test, y, y_test = train_test_split(X, y, test_size=test, random_state=0, stratify=y)
    rng = np.random.default_rng(0)
    wrong = rng.random(len(y)) < 0.4
    given = np.where(wrong, (y + rng.integers(1, num_classes, len(y))) % num_classes, y)
    return Noisy(X, given, y, X[:trusted], y[:trusted], X_test, y_test)


@pytest.fixture(scope="module")
def digits() -> Noisy:
    X, y = load_digits(return_X_y=True)
    return noisy(X / 16, y, 10, test=500, trusted=100)


@pytest.fixture(scope="module")
def blobs() -> Noisy:
    """Three classes of two columns whose scales are far apart."""
    rng = np.random.default_rng(1)
    y = np.arange(600) % 3
    X = (rng.normal(size=(600, 2)) + 4 * np.array([[0, 0], [1, 0], [0, 1]])[y]) * [100.0, 0.01]
    return noisy(X, y, 3, test=200, trusted=40)


def small(**settings: Any) -> ReweightedClassifier:
    return ReweightedClassifier(**{"epochs": 10, "batch_size": 64, "random_state": 0, **settings})


def scaled(data: Noisy) -> Noisy:
    scale = StandardScaler().fit(data.X)
    return data._replace(**{key: scale.transform(getattr(data, key)) for key in ("X", "X_val", "X_test")})


def dropping(input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(*input_shape, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, num_classes))


class Trusting(ReweightedClassifier):
    """Takes the training set as its trusted set: the checks call fit(X, y), and must reach the weights."""

    def fit(self, X: Any, y: Any) -> Trusting:
        return super().fit(X, y, X_val=X, y_val=y)


@untrusted
@parametrize_with_checks([ReweightedClassifier(epochs=20), Trusting(epochs=20)])
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    """All of them; the warning of a fit without trusted samples is ignored."""
    check(estimator)


@untrusted
def test_trusted_samples_beat_training_without_them(digits: Noisy) -> None:
    model = ReweightedClassifier(epochs=40, random_state=0)
    plain = clone(model).fit(digits.X, digits.given).score(digits.X_test, digits.y_test)
    fit = digits.fit(model)
    assert fit.score(digits.X_test, digits.y_test) >= plain + MARGIN
    right = digits.given == digits.true
    assert fit.sample_weight_.shape == digits.given.shape
    assert fit.sample_weight_[right].mean() > 3 * fit.sample_weight_[~right].mean()


def test_without_trusted_samples_it_warns_and_all_weights_are_one(blobs: Noisy) -> None:
    data = scaled(blobs)
    with pytest.warns(UserWarning, match="pass X_val= and y_val=, a few samples with correct labels"):
        fit = small().fit(data.X, data.true)
    np.testing.assert_array_equal(fit.sample_weight_, np.ones(len(data.X)))
    assert fit.score(data.X_test, data.y_test) > 0.85


@untrusted
@pytest.mark.parametrize("trusted", [True, False])
def test_a_random_state_makes_fits_repeatable_and_torchs_own_is_not_changed(blobs: Noisy, trusted: bool) -> None:
    data = scaled(blobs)

    def fit(seed: int) -> ReweightedClassifier:
        model = small(random_state=seed, epochs=3)
        return data.fit(model) if trusted else model.fit(data.X, data.given)

    torch.manual_seed(7)
    before, first = torch.get_rng_state(), fit(0)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(8)
    again, other = fit(0), fit(1)
    np.testing.assert_array_equal(first.predict_proba(data.X_test), again.predict_proba(data.X_test))
    np.testing.assert_array_equal(first.sample_weight_, again.sample_weight_)
    assert not np.array_equal(first.predict_proba(data.X_test), other.predict_proba(data.X_test))


@untrusted
@pytest.mark.parametrize("trusted", [True, False])
def test_a_pickled_classifier_resumes_to_the_same_weights(blobs: Noisy, trusted: bool) -> None:
    data = scaled(blobs)

    def fit(model: ReweightedClassifier) -> ReweightedClassifier:
        return data.fit(model) if trusted else model.fit(data.X, data.given)

    whole = fit(small(module=dropping, epochs=6))
    half = fit(small(module=dropping, epochs=4, warm_start=True))
    assert not np.array_equal(half.predict_proba(data.X_test), whole.predict_proba(data.X_test))
    resumed = fit(pickle.loads(pickle.dumps(half)).set_params(epochs=2))
    np.testing.assert_array_equal(resumed.sample_weight_, whole.sample_weight_)
    np.testing.assert_array_equal(resumed.predict_proba(data.X_test), whole.predict_proba(data.X_test))
    assert (whole.sample_weight_.std() > 0.1) == trusted
    again = fit(whole)  # without warm_start it starts again
    np.testing.assert_array_equal(again.sample_weight_, resumed.sample_weight_)


def test_resuming_with_other_rows_is_an_error(blobs: Noisy) -> None:
    data = scaled(blobs)
    model = data.fit(small(epochs=1, warm_start=True))
    with pytest.raises(ValueError, match="this state is of 400 training samples, but there are 300 now"):
        data._replace(X=data.X[:300], given=data.given[:300]).fit(model)
    with pytest.raises(ValueError, match=r"continues with the classes \[0, 1, 2\], but y has \[1, 2, 3\]"):
        data._replace(given=data.given + 1).fit(model)
    with pytest.raises(ValueError, match="X has 3 features, but ReweightedClassifier is expecting 2"):
        data._replace(X=np.zeros((400, 3))).fit(model)
    assert data.fit(model).sample_weight_.shape == (400,)


def test_a_frozen_network_is_an_error(blobs: Noisy) -> None:
    with pytest.raises(ValueError, match=r"no parameter of Linear requires a gradient.*unfreeze a part of it"):
        scaled(blobs).fit(small(module=nn.Linear(2, 3).requires_grad_(False)))


def test_labels_may_be_words(blobs: Noisy) -> None:
    data, words = scaled(blobs), np.array(["pear", "apple", "fig"])
    named = data._replace(given=words[data.given], y_val=words[data.y_val])
    fit = named.fit(small())
    assert fit.classes_.tolist() == ["apple", "fig", "pear"]
    assert np.mean(fit.predict(data.X_test) == words[data.y_test]) > 0.8
    proba = fit.predict_proba(data.X_test)
    np.testing.assert_allclose(proba.sum(1), 1, rtol=1e-5)
    np.testing.assert_array_equal(fit.classes_[proba.argmax(1)], fit.predict(data.X_test))


def linear(input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(input_shape)), num_classes))


def test_a_custom_network(blobs: Noisy) -> None:
    data = scaled(blobs)
    assert [type(part) for part in data.fit(small(module=linear)).net_.module_] == [nn.Flatten, nn.Linear]
    given = nn.Linear(2, 3)
    before = copy.deepcopy(given.state_dict())
    fit = data.fit(small(module=given))
    assert isinstance(fit.net_.module_, nn.Linear)
    assert all(torch.equal(given.state_dict()[key], value) for key, value in before.items())
    assert not torch.equal(fit.net_.module_.weight, given.weight)
    with pytest.raises(TypeError, match=r"module must be a network, or callable as .* got 'mlp'"):
        data.fit(small(module="mlp"))


def test_images_reach_the_network_in_their_shape(digits: Noisy) -> None:
    def images(X: np.ndarray) -> np.ndarray:
        return X[:200].reshape(-1, 1, 8, 8)

    seen = []

    def convolution(input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
        seen.append(input_shape)
        return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, num_classes))

    model = small(module=convolution, epochs=2)
    model.fit(images(digits.X), digits.given[:200], X_val=images(digits.X_val), y_val=digits.y_val)
    assert seen == [(1, 8, 8)]
    assert model.predict(images(digits.X_test)).shape == (200,)


def test_arguments_take_effect(blobs: Noisy) -> None:
    data = scaled(blobs)
    limits = data.fit(small(mean_one=True, cap=1.2, divergence=KL(width=0.3))).sample_weight_
    assert limits.max() <= 1.2 + 1e-6
    schedule = LRScheduler(policy="StepLR", step_size=1, gamma=0.1)
    fit = data.fit(
        small(optimizer=torch.optim.SGD, lr=0.5, weight_decay=0.01, callbacks=[("lr", schedule)], epochs=2)
    )
    group = fit.net_.optimizer_.param_groups[0]
    assert isinstance(fit.net_.optimizer_, torch.optim.SGD)
    assert (group["weight_decay"], group["lr"]) == (0.01, pytest.approx(0.005))
    assert not hasattr(schedule, "lr_scheduler_")  # fit uses a copy: it must not change parameters


def test_in_a_pipeline_the_trusted_samples_are_transformed_too(blobs: Noisy) -> None:
    with config_context(enable_metadata_routing=True):
        model = small().set_fit_request(X_val=True, y_val=True)
        pipeline = Pipeline([("scale", StandardScaler()), ("net", model)], transform_input=["X_val"])
        fit = blobs.fit(clone(pipeline))
    by_hand = scaled(blobs).fit(small())
    np.testing.assert_array_equal(fit[-1].sample_weight_, by_hand.sample_weight_)
    np.testing.assert_array_equal(fit.predict(blobs.X_test), by_hand.predict(scaled(blobs).X_test))
    assert fit.score(blobs.X_test, blobs.y_test) > 0.8


def test_in_a_pipeline_without_routing_they_are_passed_by_name_and_not_transformed(blobs: Noisy) -> None:
    data = scaled(blobs)
    pipeline = make_pipeline(StandardScaler(), small())
    names = {"reweightedclassifier__X_val": data.X_val, "reweightedclassifier__y_val": data.y_val}
    fit = pipeline.fit(blobs.X, blobs.given, **names)
    np.testing.assert_array_equal(fit[-1].sample_weight_, data.fit(small()).sample_weight_)


def test_grid_search_passes_them_to_every_fit(blobs: Noisy) -> None:
    data = scaled(blobs)
    grid = {"divergence": ["kl", KL(width=0.2)], "lr": [1e-6, 3e-3]}
    search = GridSearchCV(small(epochs=6), grid, cv=2, error_score="raise")  # a warning would be an error
    data.fit(search)
    assert search.best_params_["lr"] == 3e-3
    assert search.best_estimator_.sample_weight_.std() > 0.1
    assert search.score(data.X_test, data.y_test) > 0.8


def test_grid_search_of_a_pipeline_with_routing(blobs: Noisy) -> None:
    with config_context(enable_metadata_routing=True):
        model = small(epochs=6).set_fit_request(X_val=True, y_val=True)
        pipeline = make_pipeline(StandardScaler(), model, transform_input=["X_val"])
        search = blobs.fit(GridSearchCV(pipeline, {"reweightedclassifier__lr": [1e-6, 3e-3]}, cv=2))
    assert search.best_params_ == {"reweightedclassifier__lr": 3e-3}
    assert search.best_estimator_[-1].sample_weight_.std() > 0.1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_val": None}, "trusted samples need both X_val and y_val: y_val is missing"),
        ({"X_val": None}, "trusted samples need both X_val and y_val: X_val is missing"),
        ({"y_val": np.full(40, 9)}, "y_val has labels that are not in y: 9"),
        ({"y_val": np.zeros(39)}, "inconsistent numbers of samples"),
        ({"X_val": np.zeros((40, 3))}, "X has 3 features, but ReweightedClassifier is expecting 2"),
        ({"X_val": np.full((40, 2), np.nan)}, "NaN"),
        ({"given": np.zeros(400)}, "y has 1 class: "),
        ({"given": np.linspace(0, 1, 400)}, "Unknown label type"),
    ],
)
def test_bad_samples_are_errors(blobs: Noisy, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        blobs._replace(**change).fit(small())


@pytest.mark.parametrize("setting", ["epochs", "batch_size"])
def test_bad_settings_are_errors(blobs: Noisy, setting: str) -> None:
    with pytest.raises(ValueError, match=f"{setting} must be at least 1, got 0"):
        blobs.fit(small(**{setting: 0}))
    with pytest.raises(ValueError, match="lr must be a positive number, got 0"):
        blobs.fit(small(lr=0))
    with pytest.raises(ValueError, match="weight_decay must be a number >= 0, got nan"):
        blobs.fit(small(weight_decay=float("nan")))
    with pytest.raises(ValueError, match="divergence"):
        blobs.fit(small(divergence="kll"))


def test_predict_before_fit_is_an_error(blobs: Noisy) -> None:
    with pytest.raises(NotFittedError):
        small().predict(blobs.X)


@pytest.mark.parametrize("device", ["abc", "", None, 1.5])
def test_an_unknown_device_is_an_error(blobs: Noisy, device: Any) -> None:
    with pytest.raises(ValueError, match=r"device must be one of PyTorch's, such as \"cpu\""):
        blobs.fit(ReweightedClassifier(epochs=1, device=device))
