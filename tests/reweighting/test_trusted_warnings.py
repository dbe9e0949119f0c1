"""Warnings of trusted samples that are too few or that do not have all classes."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from adiw import ADIW, Indexed

CROSS_ENTROPY = nn.CrossEntropyLoss(reduction="none")
Y = torch.arange(60) % 4
X = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))


def make(trusted: Tensor, joined: bool = True, x: Any = X, **settings: Any) -> ADIW:
    """The samples at ``trusted``, as trusted samples of the training set or as a set of their own."""
    torch.manual_seed(0)
    data = TensorDataset(x, Y)
    val_set: Any = Indexed(data, trusted).trusted if joined else TensorDataset(x[trusted], Y[trusted])
    return ADIW(nn.Linear(2, 4), CROSS_ENTROPY, val_set, 60, **settings)


def train(reweight: ADIW, labels: Tensor = Y) -> ADIW:
    for _ in range(2):
        index = torch.arange(60)
        reweight(reweight.evaluator.model(X), labels, index).backward()
    return reweight


def of_classes(*classes: int) -> Tensor:
    return torch.isin(Y, torch.tensor(classes)).nonzero().flatten()


@pytest.fixture(autouse=True)
def _no_other_warning() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "diverging weights")  # after two steps with sixty samples they may
        yield


@pytest.mark.parametrize("divergence", [None, "kl"])
@pytest.mark.parametrize("count", [1, 9])
def test_few_trusted_samples(count: int, divergence: str | None) -> None:
    with pytest.warns(
        UserWarning, match=rf"^only {count} trusted samples?: .*unreliable.*Check the labels of more"
    ) as found:
        make(torch.arange(count), divergence=divergence)
    assert [warning.filename for warning in found] == [__file__]


@pytest.mark.parametrize("joined", [True, False])
def test_enough_trusted_samples_of_all_classes(joined: bool) -> None:
    train(make(torch.arange(10), joined)).summary()


@pytest.mark.parametrize("divergence", [None, "kl"])
@pytest.mark.parametrize("joined", [True, False])
def test_trusted_samples_of_one_class(joined: bool, divergence: str | None) -> None:
    with pytest.warns(UserWarning, match=r"^all 15 trusted samples are of class 2: .*Draw trusted samples at random"):
        reweight = make(of_classes(2), joined, divergence=divergence)
    train(reweight).summary()  # not a second time


@pytest.mark.parametrize("joined", [True, False])
def test_a_class_without_trusted_samples(joined: bool) -> None:
    reweight = train(make(of_classes(0, 2), joined, val_every=1))
    with pytest.warns(UserWarning, match=r"^no trusted sample is of class 1, 3, but training samples are: ") as found:
        reweight.summary()
    assert [warning.filename for warning in found] == [__file__]
    assert reweight.ranks is not None
    assert reweight.ranks.factors is not None
    factors = reweight.ranks.factors[[1, 3]]
    assert f"multiplied by {factors.min():.2f}" in str(found[0].message)
    assert factors.max() < 0.9
    reweight.summary()  # reported once


def test_a_class_that_training_samples_have_only_later() -> None:
    reweight = train(make(of_classes(0, 1), val_every=1), labels=Y % 3)
    with pytest.warns(UserWarning, match="of class 2, but"):
        reweight.summary()
    train(reweight)
    with pytest.warns(UserWarning, match="of class 2, 3, but"):
        reweight.summary()


def test_a_class_that_training_samples_do_not_have_is_not_missing() -> None:
    train(make(of_classes(0, 1, 2)), labels=Y % 3).summary()


def test_nothing_is_missing_before_all_trusted_samples_were_seen() -> None:
    reweight = make(torch.arange(20, 40))
    reweight(reweight.evaluator.model(X[:22]), Y[:22], torch.arange(22))
    reweight.summary()


@pytest.mark.parametrize("settings", [{"val_refresh": 4}, {"cache_bytes": 0}], ids=str)
def test_labels_from_the_cache_or_from_a_whole_evaluation(settings: dict[str, Any]) -> None:
    reweight = train(make(of_classes(0, 1, 3), joined=False, **settings))
    with pytest.warns(UserWarning, match="of class 2, but"):
        reweight.summary()


def test_unknown_labels_are_not_reported() -> None:
    settings: dict[str, Any] = {"val_refresh": 4, "cache_bytes": 0}
    train(make(of_classes(0, 1, 3), joined=False, **settings)).summary()


def test_targets_that_are_not_classes() -> None:
    val_set = TensorDataset(torch.randn(12, 2), torch.zeros(12))
    model = nn.Linear(2, 1)
    reweight = ADIW(model, lambda outputs, targets: (outputs[:, 0] - targets).square(), val_set, 60)
    reweight(model(X), Y.float(), torch.arange(60))
    reweight.summary()
