"""Projections of any finite numbers: the constraints hold, and order and excluded entries do not matter."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from adiw.matching import groups
from adiw.matching.projections import box, box_mean_band, clamp_rescale, non_negative, simplex, weighted_simplex
from tests.divergences.numbers import hostile, number

finite = number.filter(lambda x: abs(x) < float("inf"))
coefficient = st.sampled_from([0.0, 1e-6, 1e-3, 0.1, 0.5, 1.0])
GROUPS = 3


@pytest.fixture(params=["all pairs", "sorting"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small batches compare all pairs, large ones are sorted."""
    monkeypatch.setattr(groups, "FEW_ON_CPU", 1024 if request.param == "all pairs" else 0)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor]:
    """(v, a, group), each (n,): group -1 is excluded, and groups may be empty or without positive coefficients."""
    rows = draw(st.lists(st.tuples(finite, coefficient, st.integers(-1, GROUPS - 1)), min_size=1, max_size=12))
    v, a, group = (torch.tensor(column) for column in zip(*rows, strict=True))
    return v, a, group


def used_groups(group: Tensor, a: Tensor) -> list[Tensor]:
    """The entries of each group with a positive coefficient, as masks (n,)."""
    return [group == k for k in range(GROUPS) if bool((a[group == k] > 0).any())]


@hostile
@given(problem=problems(), order=st.randoms(use_true_random=False))
def test_the_mean_stays_in_its_band_and_no_entry_leaves_its_box(problem: tuple[Tensor, ...], order: object) -> None:
    v, _, group = problem
    x = box_mean_band(v, 2.5, 0.5, 1.5, group, GROUPS)
    for own in used_groups(group, torch.ones_like(v)):
        assert bool(((x[own] >= 0) & (x[own] <= 2.5)).all()), x
        assert 0.5 - 1e-5 <= float(x[own].mean()) <= 1.5 + 1e-5, x
        assert_close(x[own], box_mean_band(v[own], 2.5, 0.5, 1.5), rtol=1e-5, atol=1e-5)
    there = torch.tensor(sorted(range(len(v)), key=lambda _: order.random()))  # type: ignore[attr-defined]
    used = group[there] >= 0
    moved = box_mean_band(v[there], 2.5, 0.5, 1.5, group[there], GROUPS)
    assert_close(moved[used], x[there][used], rtol=1e-5, atol=1e-5)


@hostile
@given(problem=problems())
def test_the_weighted_sum_is_the_total(problem: tuple[Tensor, ...]) -> None:
    v, a, group = problem
    for project in (weighted_simplex, clamp_rescale):
        x = project(v, a, group=group, num_groups=GROUPS)
        assert bool((x[group >= 0] >= 0).all()), x
        assert bool(x[group >= 0].isfinite().all()), x
        for own in used_groups(group, a):
            # Rescaling needs mass: beside an entry of 1e30 without a coefficient, an entry of 0.1 counts as zero.
            if project is weighted_simplex or bool((a * v)[own].max() > 1e-20 * v[own].max().clamp_min(0)):
                assert float(a[own] @ x[own]) == pytest.approx(1, rel=1e-3), (project, x)


@hostile
@given(v=st.lists(finite, min_size=1, max_size=9))
def test_without_groups(v: list[float]) -> None:
    point = torch.tensor(v)
    assert float(simplex(point).sum()) == pytest.approx(1, rel=1e-4)
    assert torch.equal(non_negative(point), point.clamp_min(0))
    assert bool(((box(point, 2.0) >= 0) & (box(point, 2.0) <= 2)).all())
