"""ReweightedClassifier and ReweightedRegressor: accuracy under wrong labels, and scikit-learn's own checks."""

from __future__ import annotations

import copy
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("skorch", reason="needs the extra adiw[sklearn]")

from scipy.sparse import csr_array, issparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from skorch.callbacks import LRScheduler

from adiw import Features
from adiw.divergences import KL
from adiw.integrations import network_estimator
from adiw.integrations.network_training import BestEpoch, ReweightedNet
from adiw.integrations.sklearn import ReweightedClassifier, ReweightedRegressor
from adiw.label_audit import ranking_quality
from adiw.reweighting.diagnostics import quick_model

MARGIN = 0.10  # of accuracy on digits with 40% wrong labels, over the same classifier without trusted samples
untrusted = pytest.mark.filterwarnings(r"ignore:\w+.fit without trusted samples:UserWarning")


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


class Trusting:
    """Takes the training set as its trusted set: the checks call fit(X, y), and must reach the weights."""

    def fit(self, X: Any, y: Any) -> Any:
        return super().fit(X, y, X_val=X, y_val=y)  # type: ignore[misc]


class TrustingClassifier(Trusting, ReweightedClassifier):
    pass


class TrustingRegressor(Trusting, ReweightedRegressor):
    pass


@untrusted
@pytest.mark.filterwarnings("ignore:early_stopping needs 20 trusted samples:UserWarning")
@parametrize_with_checks(
    [kind(epochs=20) for kind in (ReweightedClassifier, TrustingClassifier, ReweightedRegressor, TrustingRegressor)]
)
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    """All of them; the warnings of a fit with no or few trusted samples are ignored."""
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
    with pytest.warns(UserWarning, match="pass X_val= and y_val=, a few samples with correct targets"):
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
    with pytest.raises(ValueError, match="expected 440 rows, 40 of them trusted, got 340 rows, 40"):
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


@pytest.mark.parametrize("setting", ["epochs", "max_steps", "batch_size"])
def test_bad_settings_are_errors(blobs: Noisy, setting: str) -> None:
    with pytest.raises(ValueError, match=f"{setting} must be at least 1, got 0"):
        blobs.fit(small(**{"epochs": None, setting: 0}))
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


def flat(X: np.ndarray) -> np.ndarray:
    return X[:, 0] - 2 * X[:, 1] + 30


@pytest.fixture(scope="module")
def units() -> Noisy:
    """A linear regression in which 30% of the targets are in a unit that is ten times smaller."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(700, 2))
    wrong = rng.random(400) < 0.3
    given = np.where(wrong, 10, 1) * flat(X[:400])
    return Noisy(X[:400], given, flat(X[:400]), X[400:440], flat(X[400:440]), X[440:], flat(X[440:]))


@untrusted
def test_a_regressor_ignores_targets_in_the_wrong_unit(units: Noisy) -> None:
    model = ReweightedRegressor(epochs=80, batch_size=64, random_state=0)
    plain, fit = clone(model).fit(units.X, units.given), units.fit(model)
    # Of the mean squared error; in some draws a few wrong targets keep their weight.
    assert 1 - fit.score(units.X_test, units.y_test) < (1 - plain.score(units.X_test, units.y_test)) / 50
    right = units.given == units.true
    assert fit.sample_weight_[right].mean() > 10 * fit.sample_weight_[~right].mean()


def test_targets_are_scaled_by_the_trusted_ones(units: Noisy) -> None:
    """Targets in a thousandth of the unit give the same network."""
    model = ReweightedRegressor(epochs=5, random_state=0)
    fit = units.fit(clone(model))
    other = units._replace(given=1000 * units.given, y_val=1000 * units.y_val).fit(clone(model))
    np.testing.assert_allclose(other.predict(units.X_test), 1000 * fit.predict(units.X_test), rtol=1e-3)
    np.testing.assert_allclose(other.sample_weight_, fit.sample_weight_, rtol=1e-2, atol=1e-2)
    with pytest.raises(ValueError, match="Input y_val contains NaN"):
        units._replace(y_val=np.full(40, np.nan)).fit(model)


def test_a_regressor_with_another_criterion(units: Noisy) -> None:
    model = ReweightedRegressor(criterion=nn.HuberLoss(reduction="none"), epochs=40, batch_size=64, random_state=0)
    assert units.fit(model).score(units.X_test, units.y_test) > 0.9
    with pytest.raises(ValueError, match=r"criterion returned a scalar.*reduction=\"none\""):
        units.fit(clone(model).set_params(criterion=nn.HuberLoss()))


def test_the_best_epoch_is_kept(units: Noisy) -> None:
    """Its network and weights are those of a training that ends there."""

    def fit(epochs: int, **settings: Any) -> ReweightedRegressor:
        return units.fit(ReweightedRegressor(epochs=epochs, lr=0.03, batch_size=64, random_state=0, **settings))

    best = fit(12)
    scores = best.validation_scores_
    assert len(scores) == 12 == len(best.net_.history)
    assert best.best_epoch_ == np.argmax(scores) + 1
    assert 1 < best.best_epoch_ < 12  # otherwise this test shows nothing
    short = fit(best.best_epoch_)
    np.testing.assert_array_equal(short.sample_weight_, best.sample_weight_)
    np.testing.assert_array_equal(short.predict(units.X_test), best.predict(units.X_test))
    last = fit(12, early_stopping=False)
    assert last.best_epoch_ is None is last.validation_scores_
    assert not np.array_equal(last.predict(units.X_test), best.predict(units.X_test))


def test_of_equal_scores_the_latest_is_kept_and_nan_never() -> None:
    net, best = ReweightedNet(nn.Linear(1, 1), nn.MSELoss).initialize(), BestEpoch()
    for score in (float("nan"), 0.5, 0.7, 0.7, 0.6, float("nan")):
        net.history.new_epoch()
        best.update(net, score, torch.ones(1))
    assert best.epoch == 4
    assert best.scores == [-np.inf, 0.5, 0.7, 0.7, 0.6, -np.inf]


def test_the_warm_up_is_not_kept_although_its_score_is_the_highest(
    blobs: Noisy, monkeypatch: pytest.MonkeyPatch
) -> None:
    falling = iter([0.9, 0.8, 0.7])
    monkeypatch.setattr(ReweightedClassifier, "_score", lambda *given: next(falling))
    fit = scaled(blobs).fit(small(epochs=3))
    assert (fit.best_epoch_, fit.validation_scores_) == (2, [0.9, 0.8, 0.7])
    assert not (fit.sample_weight_ == 1).all()


def test_few_trusted_samples_are_not_split(blobs: Noisy) -> None:
    data = scaled(blobs)
    few = data._replace(X_val=data.X_val[:19], y_val=data.y_val[:19])
    with pytest.warns(UserWarning, match="early_stopping needs 20 trusted samples or more, got 19"):
        fit = few.fit(small(epochs=2))
    assert fit.best_epoch_ is None
    few.fit(small(epochs=2, early_stopping=False))  # without a warning


def test_lengths_are_in_steps(blobs: Noisy) -> None:
    """A pass over 400 rows and 32 trusted ones takes 6 steps of 64."""
    data, steps = scaled(blobs), []
    for settings in ({"max_steps": 20}, {"max_steps": 200}, {"epochs": 2}):
        fit = data.fit(small(**{"epochs": None, **settings}))
        steps.append([len(batches) for batches in fit.net_.history[:, "batches", :, "train_loss"]])
    assert steps == [[1] * 20, [6] * 34, [6] * 2]


@pytest.mark.parametrize(("joined", "seen"), [(True, 432), (False, 400)])
def test_trusted_samples_are_trained_on_once_per_epoch(blobs: Noisy, joined: bool, seen: int) -> None:
    fit = scaled(blobs).fit(small(epochs=1, batch_size=1, join_trusted=joined))
    assert len(fit.net_.history[0, "batches"]) == seen
    assert fit.sample_weight_.shape == (400,)


def test_a_mask_names_the_trusted_rows_of_x(blobs: Noisy) -> None:
    """The same rows as X_val and y_val give the same network; held-out rows have a weight of one."""
    data = scaled(blobs)
    X, y = np.concatenate([data.X, data.X_val]), np.concatenate([data.given, data.y_val])
    masked = small().fit(X, y, trusted=np.arange(440) >= 400)
    apart = data.fit(small())
    np.testing.assert_array_equal(masked.predict_proba(data.X_test), apart.predict_proba(data.X_test))
    np.testing.assert_array_equal(masked.sample_weight_[:400], apart.sample_weight_)
    assert (masked.sample_weight_[400:] == 1).sum() == 8
    mask = np.arange(440) < 100
    for wrong in (mask.astype(int), mask[:400]):
        with pytest.raises(ValueError, match=r"trusted must be a boolean array \(440,\)"):
            small().fit(X, y, trusted=wrong)
    with pytest.raises(ValueError, match="either X_val and y_val, or the rows of X in trusted=, not both"):
        small().fit(X, y, X_val=X, y_val=y, trusted=mask)
    with pytest.raises(ValueError, match="join_trusted=False trains on the rows that are not trusted"):
        small(join_trusted=False).fit(X, y, trusted=np.ones(440, bool))


def test_text_columns_and_missing_values_through_a_pipeline() -> None:
    pandas = pytest.importorskip("pandas", reason="needs the extra adiw[cli]")
    rng = np.random.default_rng(0)
    job, age = rng.choice(["clerk", "nurse", "smith"], 600), rng.normal(40, 10, 600)
    y = np.where((job == "nurse") | (age > 50), "yes", "no")
    X = pandas.DataFrame({"job": job, "age": age})
    X.loc[::50, "age"], X.loc[1::50, "job"] = np.nan, None
    trusted = np.arange(600) % 10 == 0
    given = np.where(~trusted & (rng.random(600) < 0.4), np.where(y == "yes", "no", "yes"), y)
    pipeline = make_pipeline(
        make_column_transformer(
            (make_pipeline(SimpleImputer(), StandardScaler()), ["age"]),
            (OneHotEncoder(handle_unknown="ignore"), ["job"]),
            sparse_threshold=1.0,
        ),
        small(epochs=20, batch_size=32),
    )
    fit = pipeline.fit(X[:400], given[:400], reweightedclassifier__trusted=trusted[:400])
    assert issparse(fit[0].transform(X[:5]))
    assert fit.score(X[400:], y[400:]) > 0.85
    assert fit[-1].classes_.tolist() == ["no", "yes"]


def test_sparse_rows_give_the_same_network(digits: Noisy) -> None:
    part = digits._replace(X=digits.X[:300], given=digits.given[:300])
    sparse = part._replace(X=csr_array(part.X), X_val=csr_array(part.X_val))
    fit, again = part.fit(small(epochs=2)), sparse.fit(small(epochs=2))
    proba = again.predict_proba(csr_array(digits.X_test))
    np.testing.assert_array_equal(proba, fit.predict_proba(digits.X_test))


def test_a_search_splits_the_mask_and_scores_on_trusted_rows(blobs: Noisy) -> None:
    data = scaled(blobs)
    trusted = np.arange(400) % 4 == 0
    y = np.where(trusted, data.true, data.given)
    with config_context(enable_metadata_routing=True):
        model = small(epochs=6).set_fit_request(trusted=True)
        scorer = make_scorer(accuracy_score).set_score_request(sample_weight="trusted")
        search = GridSearchCV(model, {"lr": [1e-6, 3e-3]}, scoring=scorer, cv=2, error_score="raise")
        search.fit(data.X, y, trusted=trusted)
    assert search.best_params_ == {"lr": 3e-3}
    assert search.best_score_ > 0.85  # 40% of all labels are wrong, so that no score on all rows is above 0.7


def test_features_of_a_hidden_layer_are_matched_class_by_class(blobs: Noisy) -> None:
    data = scaled(blobs)
    model = small(match_on=Features("features", num_classes=3), warm_start=True)
    fit = data.fit(model)
    hooks = [len(module._forward_hooks) for module in fit.net_.module_.modules()]
    assert sum(hooks) == 0
    assert not np.array_equal(fit.sample_weight_, data.fit(small(match_on="loss")).sample_weight_)
    pickled = pickle.loads(pickle.dumps(fit))
    np.testing.assert_array_equal(data.fit(pickled).sample_weight_, data.fit(fit).sample_weight_)
    with pytest.raises(ValueError, match="the model has no layer 'body'"):
        data.fit(small(match_on=Features("body")))


def test_verbose_shows_every_epoch(blobs: Noisy, capsys: pytest.CaptureFixture[str]) -> None:
    scaled(blobs).fit(small(epochs=3, verbose=1))
    head, _, *lines = capsys.readouterr().out.splitlines()
    assert {"epoch", "train_loss", "valid_score"} <= set(head.split())
    assert [line.split()[0] for line in lines] == ["1", "2", "3"]


@pytest.mark.parametrize("fraction", [0, 1, -0.1, "half"])
def test_a_bad_fraction_is_an_error(blobs: Noisy, fraction: Any) -> None:
    with pytest.raises(ValueError, match="validation_fraction must be between 0 and 1"):
        blobs.fit(small(validation_fraction=fraction))


def audited(model: Any, X: Any, wrong: np.ndarray) -> Any:
    """The audit of the rows, whose wrong targets rank first."""
    found = model.audit(X)
    rest = found.order
    assert ranking_quality(found.losses[rest], wrong[rest])[0] > 0.9  # 0.5 by chance
    return found


@pytest.mark.parametrize("verbose", [0, 1])
def test_a_verbose_audit_says_what_it_does(
    verbose: int, blobs: Noisy, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_estimator, "SECONDS", -1.0)  # every line
    monkeypatch.setattr(quick_model, "_shared", {})  # its result would be that of another test
    data = scaled(blobs)
    model = data.fit(small(epochs=1, verbose=verbose))
    capsys.readouterr()
    model.audit(data.X)
    steps = [f"audit: quick model, step {step} of 900" for step in range(1, 901)]
    reading = [f"audit: evaluating, sample {done} of 440" for done in (256, 440)]  # trusted rows too
    lines = capsys.readouterr().out.splitlines()
    assert lines == [*reading, *steps, "audit: neighbours, sample 408 of 408"] * verbose


def test_the_audit_of_a_table_finds_the_wrong_labels(blobs: Noisy) -> None:
    pandas = pytest.importorskip("pandas", reason="the audit of a DataFrame")
    data = scaled(blobs)
    names = np.array(["ant", "bee", "cat"])
    X, given = pandas.DataFrame(data.X, columns=["width", "height"]), names[data.given]
    model = small().fit(X, given, X_val=pandas.DataFrame(data.X_val, columns=X.columns), y_val=names[data.y_val])
    found = audited(model, X, data.given != data.true)
    assert len(found.order) == len(X)  # the trusted rows are not part of X
    assert found.cutoff is not None
    assert found.cutoff.wrong == pytest.approx(0.4 * len(X), rel=0.5)
    table = found.table(5)
    assert table["given_name"] == given[found.order[:5]].tolist()
    assert table["column width"] == [str(value) for value in X["width"][found.order[:5]]]
    assert table["numbering"][0] == "row of X, from 0"
    with pytest.raises(ValueError, match="audit takes the X that fit was called with: expected 400 rows, got 7"):
        model.audit(X[:7])
    with pytest.raises(NotFittedError):
        small().audit(X)


def test_trusted_rows_of_the_table_are_not_ranked(blobs: Noisy) -> None:
    data = scaled(blobs)
    trusted = np.arange(len(data.given)) < 40
    given = np.where(trusted, data.true, data.given)
    model = small().fit(data.X, given, trusted=trusted)
    found = audited(model, data.X, given != data.true)
    assert not trusted[found.order].any()
    again = pickle.loads(pickle.dumps(model)).audit(data.X)
    np.testing.assert_allclose(again.losses, found.losses)


def test_the_audit_of_a_regression_is_in_the_units_of_y() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 1))
    y = 2000 * X[:, 0] + 5000
    wrong = rng.random(300) < 0.2
    given = np.where(wrong, 10 * y, y)
    model = ReweightedRegressor(epochs=30, random_state=0).fit(X, given, X_val=X[:40], y_val=y[:40])
    found = audited(model, X, wrong)
    np.testing.assert_allclose(found.given, given, rtol=1e-3, atol=10)
    assert found.predicted is not None
    np.testing.assert_allclose(found.predicted, model.predict(X), rtol=1e-4, atol=1)


@untrusted
def test_rows_are_ranked_without_trusted_ones_too(blobs: Noisy) -> None:
    data = scaled(blobs)
    model = small(epochs=3).fit(data.X, data.given)
    found = audited(model, data.X, data.given != data.true)
    assert found.cutoff is None
