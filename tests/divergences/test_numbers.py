"""Arbitrary numbers: for any z, groups and stored parameters, an estimate is finite and feasible."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from adiw import DIVERGENCES
from adiw.divergences import KL, MMD, Squared
from adiw.reweighting.divergence_estimator import run_estimation
from adiw.reweighting.estimate_weights import estimate_weights
from adiw.testing.batches import NAN, Batch
from adiw.testing.suite import STEPS, Setup, assert_feasible, setup
from tests.divergences.cases import FAR, WIDTH, Case
from tests.divergences.numbers import hostile, number, variants

every_divergence = pytest.mark.parametrize("name", DIVERGENCES)


@st.composite
def batches(draw: st.DrawFn, dim: int) -> Batch:
    """One to eight training and one to six validation samples, in one to three groups; sides may differ in groups."""
    groups = draw(st.integers(1, 3))

    def side(size: int) -> tuple[Tensor, Tensor]:
        rows = draw(st.lists(st.lists(number, min_size=dim, max_size=dim), min_size=size, max_size=size))
        group = draw(st.lists(st.integers(-1, groups - 1), min_size=size, max_size=size))
        return torch.tensor(rows), torch.tensor(group)

    (z_train, group_train), (z_val, group_val) = side(draw(st.integers(1, 8))), side(draw(st.integers(1, 6)))
    return Batch(z_train, z_val, group_train, group_val, groups)


# Stored parameters: never estimated, zero, or of any size that an estimate can have.
kept = st.one_of(st.just(NAN), st.just(0.0), st.floats(0, 60, width=32), st.sampled_from([1e-30, 1e6]))


def resolved(batch: Batch) -> bool:
    """False for vectors that are far apart (see FAR). A single distant vector has its own test."""
    train, val = batch.used()
    used = torch.cat([batch.z_train[train], batch.z_val[val]])
    return used.shape[1] == 1 or bool((used.abs() <= FAR * WIDTH).all())


@every_divergence
@hostile
@given(data=st.data())
def test_an_estimate_is_finite_and_feasible(name: str, data: st.DataObject) -> None:
    case, dim = data.draw(st.sampled_from(variants(name)))
    batch = data.draw(batches(dim))
    size = len(batch.z_train if case.divergence.side == "train" else batch.z_val)
    check_estimate(case, batch, torch.tensor(data.draw(st.lists(kept, min_size=size, max_size=size))))


def check_estimate(case: Case, batch: Batch, params: Tensor) -> None:
    matched = batch.batches(torch.float32)
    done = run_estimation(case.divergence, matched, params, {}, STEPS, torch.Generator().manual_seed(0))
    at = Setup(case, batch, matched, done.memory, done.problem)
    train, own = batch.used()[0], at.own(*batch.used())
    weights = done.problem.weights(done.end)[train]
    assert bool(weights.isfinite().all()), weights.tolist()
    assert bool((weights >= 0).all()), weights.tolist()
    assert bool(done.end[own].isfinite().all()), done.end.tolist()
    assert torch.equal(done.end[~own], done.start[~own]), "an excluded sample has changed"
    for name, value in done.memory.items():
        assert bool(value.isfinite().all()), name
    if resolved(batch):
        assert_feasible(at, done.end, 1e-4)


@every_divergence
@hostile
@given(data=st.data())
def test_the_order_of_the_samples_does_not_matter(name: str, data: st.DataObject) -> None:
    case, dim = data.draw(st.sampled_from(variants(name)))
    batch = data.draw(batches(dim))
    train = torch.tensor(data.draw(st.permutations(range(len(batch.z_train)))))
    val = torch.tensor(data.draw(st.permutations(range(len(batch.z_val)))))
    check_order(case, batch, train, val)


def check_order(case: Case, batch: Batch, train: Tensor, val: Tensor) -> None:
    """In float64, and not from a kink of the objective, where rounding would decide the gradient."""
    if not resolved(batch):
        return
    at = setup(case, batch)
    moved = setup(case, batch.take(train, val), at.memory)
    start = at.anywhere()
    end, other = at.estimate(start), moved.estimate(start[at.own(train, val)])
    used = batch.used()[0]
    weights, others = at.problem.weights(end)[used], moved.problem.weights(other)[used[train].nonzero()[:, 0]]
    back = train[used[train]].argsort()
    scale = float(weights.abs().max()) if len(weights) else 1.0
    assert_close(others[back], weights, rtol=1e-6, atol=1e-6 * max(scale, 1.0))


@pytest.mark.parametrize("divergence", [KL(), MMD(width=0.5), Squared(width=0.5, step_size=0.1)], ids=str)
@pytest.mark.parametrize("extreme", [1e5, -1e30, 3e38])
def test_an_extreme_vector_leaves_the_others_precise(divergence: KL | MMD | Squared, extreme: float) -> None:
    """Distances of vectors come from a product around a centre, which must not follow the extreme vector."""
    generator = torch.Generator().manual_seed(0)
    z_train, z_val = torch.rand(9, 3, generator=generator), torch.rand(7, 3, generator=generator)
    centres = z_train if divergence.side == "train" else z_val
    for position in (0, 3, 6):
        tame, other = centres.clone(), centres.clone()
        tame[position], other[position] = 100.0, extreme  # both are out of reach of the kernel
        batches = [(z, z_val) if divergence.side == "train" else (z_train, z) for z in (other, tame)]
        found, expected = (estimate_weights(*batch, divergence, steps=STEPS)[0] for batch in batches)
        assert_close(found, expected, rtol=1e-4, atol=1e-4)
        assert float(found.std()) > 1e-3


@every_divergence
def test_the_largest_numbers(name: str) -> None:
    """Their differences and sums overflow."""
    z_train, z_val = torch.tensor([3e38, -3e38, 0.1, 0.3]), torch.tensor([-3e38, 3e38, 3e38, 0.2])
    for case, dim in variants(name):
        batch = (z[:, None].expand(4, dim) for z in (z_train, z_val))
        weights, _ = estimate_weights(*batch, case.divergence, steps=STEPS)
        assert bool((weights.isfinite() & (weights >= 0)).all()), case.divergence


def test_coefficients_of_any_size_are_rescaled() -> None:
    """A stored coefficient may be 1e25, from a batch with a small mass; dividing by a small mass would overflow."""
    z_train, z_val = torch.tensor([0.0, 5.0]), torch.tensor([0.0, 6.0])
    _, state = estimate_weights(z_train, z_val, KL(width=WIDTH))
    for size in (1e-30, 1e25, 3e38):
        start = replace(state, params=torch.tensor([0.5, 1.0]) * size)
        weights, after = estimate_weights(z_train + 1.5, z_val, KL(width=WIDTH), state=start)
        assert bool(weights.isfinite().all())
        assert float(weights.mean()) == pytest.approx(1, rel=1e-5)
        assert bool(after.params.isfinite().all())
