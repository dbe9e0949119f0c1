"""Settings: defaults of each data set, given values, and errors for values that are not allowed."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from adiw.data import DATASETS
from adiw.experiments.model_and_optimizer import learning_rate
from adiw.experiments.settings import DEFAULTS, Settings, SettingsError, resolve


def test_given_values_override_the_data_sets_defaults() -> None:
    settings = resolve({"dataset": "digits", "batch": 32})
    assert (settings.batch, settings.momentum, settings.trusted) == (32, 0.9, 100)
    assert settings.decay == Settings().decay
    assert resolve({}).dataset == "digits"


def test_the_papers_appendix() -> None:
    fashion, cifar10, cifar100 = (resolve({"dataset": name}) for name in ("fashion-mnist", "cifar10", "cifar100"))
    assert (fashion.optimizer, fashion.lr, fashion.weight_decay, fashion.epochs) == ("sgd", 0.1, 1e-7, 400)
    assert (fashion.model, fashion.batch) == ("lenet5", 256)
    assert (cifar10.optimizer, cifar10.lr, cifar10.weight_decay, cifar10.epochs) == ("adam", 5e-4, 1e-4, 400)
    assert dataclasses.replace(cifar100, dataset="cifar10", weight_decay=1e-4) == cifar10
    assert cifar100.weight_decay == 5e-4


def test_every_data_set_has_defaults_that_are_settings() -> None:
    assert set(DEFAULTS) == set(DATASETS)
    for name in DATASETS:
        assert resolve({"dataset": name}).dataset == name


def test_the_learning_rate_falls_after_every_hundred_epochs() -> None:
    settings = Settings(lr=0.1, decay_every=100, decay=0.1)
    rates = [learning_rate(settings, epoch) for epoch in (0, 99, 100, 199, 200)]
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001])


def test_settings_are_frozen_and_become_a_dict() -> None:
    settings = resolve({"dataset": "csv", "width": "auto", "path": "x.csv"})
    assert Settings(**settings.as_dict()) == settings
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.lr = 1.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epoch": 3}, "unknown setting 'epoch': did you mean 'epochs'?"),
        ({"dataset": "fashionmnist"}, "unknown dataset 'fashionmnist': expected one of fashion-mnist, "),
        ({"optimizer": "adm"}, "unknown optimizer 'adm': expected one of adam, sgd"),
        ({"optimizer": "sdg"}, "unknown optimizer 'sdg': expected one of sgd, adam"),
        ({"transform": "feature"}, "unknown transform 'feature': expected one of features, loss"),
        ({"solver": "cvx"}, "unknown solver 'cvx': expected one of cvxopt, "),
        ({"critic": "net"}, "unknown critic 'net': expected one of network, "),
        ({"epochs": -1}, "epochs must be at least 1, got -1"),
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"batch": 0}, "batch must be at least 1, got 0"),
        ({"val_batch": 0}, "val_batch must be at least 1, got 0"),
        ({"decay_every": 0}, "decay_every must be at least 1, got 0"),
        ({"selection": -1}, "selection must be at least 0, got -1"),
        ({"lr": 0.0}, "lr must be a positive number, got 0.0"),
        ({"lr": float("nan")}, "lr must be a positive number, got nan"),
        ({"decay": float("inf")}, "decay must be a positive number, got inf"),
        ({"momentum": -0.1}, "momentum must be a number of at least 0, got -0.1"),
        ({"weight_decay": float("nan")}, "weight_decay must be a number of at least 0, got nan"),
        ({"clip": 0.0}, "clip must be a positive number, got 0.0"),
        ({"seed": -1}, "seed must be from 0 to 4294967295, got -1"),
        ({"seed": 2**32}, "seed must be from 0 to 4294967295, got 4294967296"),
        (
            {"trusted": 5, "trusted_file": "x"},
            "trusted and trusted_file both select the trusted samples: give only one of them",
        ),
    ],
)
def test_values_that_are_not_allowed_are_errors(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as raised:
        resolve(given)
    assert str(raised.value).startswith(message)
