"""The exact Wasserstein critic: scipy's distance, ties, and excluded samples."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from torch.testing import assert_close

from adiw.divergences import Wasserstein
from adiw.matching.batches import match


@pytest.mark.parametrize("seed", range(5))
def test_objective_is_n_times_scipys_distance_also_with_ties(seed: int) -> None:
    rng = np.random.default_rng(seed)
    z, v = np.round(rng.normal(size=12), 1), np.round(rng.normal(1, 1, size=7), 1)
    w = rng.exponential(size=12)
    w /= w.mean()
    problem = Wasserstein("exact", 1.0).problem(match(torch.from_numpy(z)[:, None], torch.from_numpy(v)[:, None]))
    expected = 12 * stats.wasserstein_distance(z, v, w)
    assert float(problem.objective(torch.from_numpy(w))) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_gradient_is_a_subgradient_also_at_kinks(seed: int) -> None:
    """J(u) >= J(w) + g'(u - w) for u of the same mean. Uniform weights and n = 2m put w on many kinks."""
    generator = torch.Generator().manual_seed(seed)
    z, v = (torch.rand(size, 1, generator=generator, dtype=torch.float64) for size in (12, 6))
    problem = Wasserstein("exact", 1.0).problem(match(z, v))
    w = torch.ones(12, dtype=torch.float64)
    slope, here = problem.gradient(w), problem.objective(w)
    for _ in range(50):
        u = problem.project(w + torch.randn(12, generator=generator, dtype=torch.float64))
        assert float(problem.objective(u)) >= float(here + slope @ (u - w)) - 1e-12


def test_critic_slopes_are_at_most_one() -> None:
    generator = torch.Generator().manual_seed(0)
    z, v = (torch.randn(size, 1, generator=generator, dtype=torch.float64) for size in (15, 9))
    problem = Wasserstein("exact", 1.0).problem(match(z, v))
    phi = -problem.gradient(torch.rand(15, generator=generator, dtype=torch.float64))
    gaps = (phi[:, None] - phi).abs() - (z - z.T).abs()
    assert float(gaps.max()) <= 1e-12


@pytest.mark.parametrize("scale", [2.0, 4.0])
def test_scale_is_the_unit_of_z(scale: float) -> None:
    z, v = torch.tensor([[0.1], [2.0], [3.0]]), torch.tensor([[0.3], [0.5]])
    w = torch.tensor([0.5, 1.5, 1.0])
    plain, scaled = (
        Wasserstein("exact", 1.0).problem(match(z, v)),
        Wasserstein("exact", scale=scale).problem(match(z, v)),
    )
    assert_close(scaled.objective(w), plain.objective(w) / scale)
    assert_close(scaled.gradient(w), plain.gradient(w) / scale)


def test_excluded_samples_do_not_change_objective_and_gradient_of_a_warm_start() -> None:
    """Stored weights do not have mean one. (After the projection, which removes constants, they do.)"""
    z, v = torch.tensor([[0.1], [0.2], [0.3]]), torch.tensor([[0.15], [0.25]])
    w = torch.tensor([0.5, 0.7, 0.9, 1.0])
    alone = Wasserstein("exact", 1.0).problem(match(z, v))
    far = torch.cat([z, torch.tensor([[9.0]])])
    with_excluded = Wasserstein("exact", 1.0).problem(match(far, v, torch.tensor([0, 0, 0, -1])))
    assert_close(with_excluded.gradient(w)[:3], alone.gradient(w[:3]))
    assert_close(with_excluded.objective(w), alone.objective(w[:3]))


def test_two_groups_are_two_distances_also_with_excluded_samples() -> None:
    """The groups lie apart, and the weights of a warm start do not have mean one."""
    z, v = torch.tensor([[0.1], [0.7], [5.2], [5.9]]), torch.tensor([[0.3], [0.5], [5.1], [5.5]])
    w, groups = torch.tensor([0.4, 0.7, 1.9, 1.2]), torch.tensor([0, 0, 1, 1])
    parts = [Wasserstein("exact", 1.0).problem(match(z[rows], v[rows])) for rows in (slice(0, 2), slice(2, 4))]
    excluded = torch.cat([z, torch.tensor([[5.4]])]), torch.cat([groups, torch.tensor([-1])])
    for (z_train, group), weights in (((z, groups), w), (excluded, torch.cat([w, torch.ones(1)]))):
        both = Wasserstein("exact", 1.0).problem(match(z_train, v, group, groups, num_groups=2))
        assert_close(both.objective(weights), parts[0].objective(w[:2]) + parts[1].objective(w[2:]))
        assert_close(both.gradient(weights)[:4], torch.cat([parts[0].gradient(w[:2]), parts[1].gradient(w[2:])]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sides", [(-1, 1), (1, -1)])
def test_the_largest_numbers_have_a_finite_distance(dtype: torch.dtype, sides: tuple[int, int]) -> None:
    most = torch.finfo(dtype).max
    z_train, z_val = (torch.tensor([[side * most], [0.0]], dtype=dtype) for side in sides)
    problem = Wasserstein("exact", 1.0).problem(match(z_train, z_val))
    ones = torch.ones(2, dtype=dtype)
    assert 0 < float(problem.objective(ones)) < most
    assert bool(problem.gradient(ones).isfinite().all())
