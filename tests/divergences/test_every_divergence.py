"""The shared suite on every divergence of the table."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from adiw import DIVERGENCES
from tests.divergences.batches import EXTREMES, LAYOUTS, Batch, extreme
from tests.divergences.cases import CASES, Case, cases_of
from tests.divergences.suite import CHECKS, check_extreme_batch

EVERY = [(case, dim) for name in DIVERGENCES for case in cases_of(name) for dim in case.dims]
every_case = pytest.mark.parametrize(("case", "dim"), EVERY, ids=[f"{c.divergence}-{d}d" for c, d in EVERY])


def test_every_case_is_of_its_divergence() -> None:
    for name, cases in CASES.items():
        assert {type(case.divergence) for case in cases} == {DIVERGENCES[name]}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("layout", LAYOUTS)
@every_case
def test_every_divergence(case: Case, dim: int, layout: str, check: Callable[[Case, Batch], None]) -> None:
    check(case, LAYOUTS[layout](dim))


@pytest.mark.parametrize("name", EXTREMES)
@every_case
def test_extreme_batches(case: Case, dim: int, name: str) -> None:
    check_extreme_batch(case, extreme(name, dim))
