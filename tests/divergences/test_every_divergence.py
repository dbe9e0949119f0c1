"""The shared suite on every divergence of the table, and short trainings with its defaults."""

from __future__ import annotations

import pytest

from adiw import DIVERGENCES
from adiw.testing import Check, checks, property_checks, training_checks
from adiw.testing.batches import EXTREMES, LAYOUTS
from adiw.testing.suite import CHECKS
from adiw.testing.training import TASKS, train
from tests.divergences.cases import CASES, cases_of

EVERY = [
    pytest.param(check, id=f"{case.divergence}-{check}")
    for name in DIVERGENCES
    for case in cases_of(name)
    for check in property_checks(case)
]
TRAININGS = [
    pytest.param(check, id=f"{name}-{check}") for name, kind in DIVERGENCES.items() for check in training_checks(kind)
]


def test_every_case_is_of_its_divergence() -> None:
    for name, cases in CASES.items():
        assert {type(case.divergence) for case in cases} == {DIVERGENCES[name]}


@pytest.mark.parametrize("check", EVERY)
def test_every_divergence(check: Check) -> None:
    check()


@pytest.mark.parametrize("check", TRAININGS)
def test_the_defaults_train(check: Check) -> None:
    check()


@pytest.mark.parametrize("name", TASKS)
def test_weights_of_one_are_worse_than_allowed(name: str) -> None:
    task = TASKS[name]()
    error, weights = train(task, None)
    assert error > task.allowed
    assert weights.unique().tolist() == [1.0]


def test_the_suite_has_every_check_on_every_batch() -> None:
    found = [str(check) for check in checks(DIVERGENCES["kl"])]
    assert len(found) == len(set(found)) == 2 * (len(LAYOUTS) * len(CHECKS) + len(EXTREMES)) + len(TASKS) + 1


@pytest.mark.parametrize("name", ["energy", "sliced"])
def test_a_unit_that_follows_the_data_passes_with_a_fixed_one(name: str) -> None:
    """The checks of a class alone, for a divergence whose default unit is that of the whole batch."""
    assert DIVERGENCES[name]().scale == "auto"
    for check in checks(DIVERGENCES[name]):
        if "separate" in str(check):
            check()
