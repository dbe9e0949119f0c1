"""The shared suite, run over the classes that the package exports."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import adiw
from adiw import baselines
from tests.baselines.suite import BATCH, CASES, CHECKS, NEED_INPUTS, Factory, X, Y, make, make_model, train


def test_cases_are_what_the_package_exports() -> None:
    assert sorted(CASES) == sorted(baselines.__all__)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", CASES)
def test_every_baseline(name: str, check: Callable[[Factory], None]) -> None:
    check(CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_missing_inputs_are_an_error_for_methods_that_need_them(name: str) -> None:
    model, index = make_model(), torch.arange(BATCH)
    reweight = make(CASES[name], model)
    if name not in NEED_INPUTS:
        assert bool(reweight(model(X[index]), Y[index], index).isfinite())
        return
    with pytest.raises(ValueError, match=rf"{name} .*: call reweight\(outputs, targets, index, inputs=x\)"):
        reweight(model(X[index]), Y[index], index)


@pytest.mark.parametrize("name", sorted(CASES.keys() - NEED_INPUTS))
def test_methods_without_validation_accept_none(name: str) -> None:
    model, index = make_model(), torch.arange(BATCH)
    reweight = make(CASES[name], model, val_set=None)
    assert bool(reweight(model(X[index]), Y[index], index).isfinite())


@pytest.mark.parametrize("name", CASES)
def test_summary_counts_the_steps(name: str) -> None:
    model = make_model()
    reweight = make(CASES[name], model)
    train(reweight, model, torch.optim.SGD(model.parameters(), lr=0.1), epochs=2)
    summary = reweight.summary()
    assert isinstance(summary, adiw.Summary)
    assert summary.steps == 6
    assert summary.nonfinite_train == summary.nonfinite_val == 0


def test_a_state_of_another_method_is_an_error() -> None:
    state = make(CASES["Uniform"], make_model()).state_dict()
    with pytest.raises(ValueError, match=r"made with Uniform\(\), but this is Fixed\(\)"):
        make(CASES["Fixed"], make_model()).load_state_dict(state)


def test_an_empty_training_set_is_an_error() -> None:
    with pytest.raises(ValueError, match="num_train must be at least 1, got 0"):
        baselines.Uniform(make_model(), torch.nn.CrossEntropyLoss(reduction="none"), None, 0)
