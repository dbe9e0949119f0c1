"""The references against finite differences, scipy and brute force on tiny problems."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from scipy import optimize, stats

from tests.oracles import reference as ref

WIDTH = 0.7


def points(seed: int, n: int = 9, m: int = 5, d: int = 2) -> tuple[ref.Array, ref.Array]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(0.5, 0.6, size=(m, d))


def numeric_gradient(f: Callable[[ref.Array], float], x: ref.Array) -> ref.Array:
    step = 1e-6
    return np.array([(f(x + step * e) - f(x - step * e)) / (2 * step) for e in np.eye(len(x))])


def test_gaussian_of_known_points() -> None:
    k = ref.gaussian(np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([[0.0, 0.0]]), 5.0)
    np.testing.assert_allclose(k[:, 0], [1.0, np.exp(-0.5)], rtol=1e-15)


def test_gradients_against_finite_differences() -> None:
    z, v = points(0)
    rng = np.random.default_rng(1)
    w, beta = rng.uniform(0.1, 2, size=len(z)), rng.uniform(0.1, 2, size=len(v))
    mean = ref.psi_bar(z, v, WIDTH)
    cases = [
        (w, lambda x: ref.mmd_objective(x, z, v, WIDTH), ref.mmd_gradient(w, z, v, WIDTH)),
        (beta, lambda x: ref.kl_objective(x, z, v, WIDTH), ref.kl_gradient(beta, z, v, WIDTH)),
        (
            beta,
            lambda x: ref.kl_objective(x / (mean @ x), z, v, WIDTH),
            ref.kl_rescaled_gradient(beta, z, v, WIDTH),
        ),
        (
            beta,
            lambda x: ref.squared_objective(x, z, v, WIDTH, 0.1),
            ref.squared_gradient(beta, z, v, WIDTH, 0.1),
        ),
    ]
    for x, f, expected in cases:
        np.testing.assert_allclose(numeric_gradient(f, x), expected, rtol=1e-6, atol=1e-7)


def test_mmd_objective_is_n_squared_times_the_squared_mmd() -> None:
    z, v = points(2)
    n, m = len(z), len(v)
    w = np.random.default_rng(3).uniform(size=n)
    masses = np.concatenate([w / n, np.full(m, -1.0 / m)])
    both = np.concatenate([z, v])
    squared = masses @ ref.gaussian(both, both, WIDTH) @ masses
    constant = ref.gaussian(v, v, WIDTH).mean()
    assert ref.mmd_objective(w, z, v, WIDTH) == pytest.approx(n**2 * (squared - constant), rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_wasserstein_against_scipy_and_duality(seed: int) -> None:
    rng = np.random.default_rng(seed)
    z, v = np.round(rng.normal(size=(12, 1)), 1), np.round(rng.normal(1, 1, size=(7, 1)), 1)  # with ties
    w = rng.exponential(size=12)
    w /= w.mean()
    distance = ref.wasserstein_1d(w, z, v)
    assert distance == pytest.approx(stats.wasserstein_distance(z.ravel(), v.ravel(), w), abs=1e-12)
    at_z, at_v = ref.wasserstein_critic_1d(w, z, v)
    assert at_v.mean() - np.mean(w * at_z) == pytest.approx(distance, abs=1e-12)
    every, phi = np.concatenate([z, v]).ravel(), np.concatenate([at_z, at_v])
    assert np.all(np.abs(phi[:, None] - phi) <= np.abs(every[:, None] - every) + 1e-12)  # Lipschitz one
    direction = rng.normal(size=12)
    direction -= direction.mean()
    slope = -at_z @ direction / 12  # convex in w, and this is a subgradient
    assert ref.wasserstein_1d(w + 0.01 * direction, z, v) >= distance + 0.01 * slope - 1e-12


def brute_projection(v: ref.Array, upper: float, a: ref.Array, low: float, high: float) -> ref.Array:
    """Nearest feasible point over all active sets: coordinates at 0, upper or free, and band sides."""
    best, distance = np.zeros(len(v)), np.inf
    for kinds in itertools.product((0.0, upper, None), repeat=len(v)):
        free = np.array([kind is None for kind in kinds])
        fixed = np.array([0.0 if kind is None else kind for kind in kinds])
        for target in (None, low, high):
            x = np.where(free, v, fixed)
            if target is not None:
                if not np.any(a[free]):
                    continue
                x[free] -= (a @ x - target) / (a[free] @ a[free]) * a[free]
            inside = np.all(x >= -1e-12) and np.all(x <= upper + 1e-12) and low - 1e-12 <= a @ x <= high + 1e-12
            if inside and np.sum((x - v) ** 2) < distance:
                best, distance = x, float(np.sum((x - v) ** 2))
    return best


@pytest.mark.parametrize("seed", range(12))
def test_projection_against_active_set_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    v, upper = 2 * rng.normal(size=4), 1.5
    a = np.full(4, 0.25) if seed % 2 else rng.uniform(0.1, 1, size=4)
    low = rng.uniform(0.1, 0.8) * a.sum()
    high = low if seed % 3 == 0 else low + 0.1
    np.testing.assert_allclose(
        ref.project_qp(v, upper, a, low, high), brute_projection(v, upper, a, low, high), rtol=0, atol=1e-9
    )


def test_projection_special_cases() -> None:
    ones = np.ones(3)
    inside = np.array([0.5, 1.0, 1.5])
    np.testing.assert_array_equal(ref.project_qp(inside, np.inf, ones, 2.0, 4.0), inside)
    simplex = ref.project_qp(np.array([1000.0, 0.0, -1000.0]), np.inf, ones, 3.0, 3.0)
    np.testing.assert_allclose(simplex, [3.0, 0.0, 0.0], atol=1e-9)
    degenerate = ref.project_qp(np.array([1.0, 1.0, 0.0]), np.inf, ones, 2.0 - 1e-9, 2.0 - 1e-9)
    np.testing.assert_allclose(degenerate, [1.0, 1.0, 0.0], atol=1e-9)
    np.testing.assert_allclose(ref.project_qp(-ones, 2.0, ones, 6.0, 7.0), [2.0, 2.0, 2.0], atol=1e-9)
    with pytest.raises(ValueError, match="empty"):
        ref.project_qp(ones, 1.0, ones, 4.0, 5.0)


@pytest.mark.parametrize(("upper", "slack"), [(1.6, 0.05), (50.0, 0.0), (np.inf, 0.3)])
def test_kmm_certificate_and_slsqp(upper: float, slack: float) -> None:
    z, v = points(4, n=8)
    found = ref.kmm_qp(z, v, WIDTH, upper, slack)
    w = found.point
    assert np.all(w >= 0)
    assert np.all(w <= upper)
    assert abs(w.mean() - 1) <= slack + 1e-12
    assert found.value == pytest.approx(ref.mmd_objective(w, z, v, WIDTH), rel=1e-12)
    assert found.gap < 1e-8
    other = optimize.minimize(
        ref.mmd_objective,
        np.ones(8),
        (z, v, WIDTH),
        jac=ref.mmd_gradient,
        method="SLSQP",
        bounds=[(0, upper)] * 8,
        constraints=[
            {"type": "ineq", "fun": lambda x: slack - (x.mean() - 1)},
            {"type": "ineq", "fun": lambda x: slack + (x.mean() - 1)},
        ],
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert found.value == pytest.approx(other.fun, abs=1e-6)
    rng = np.random.default_rng(5)  # the certificate's linear programme is not beaten by feasible points
    for _ in range(50):
        anything = ref.project_qp(rng.normal(1, 2, size=8), upper, np.full(8, 0.125), 1 - slack, 1 + slack)
        slope = ref.mmd_gradient(anything, z, v, WIDTH)
        assert ref.mmd_objective(anything, z, v, WIDTH) >= found.value - 1e-9
        assert ref.kmm_gap(anything, slope, upper, slack) >= slope @ (anything - w) - 1e-9


def test_kmm_gap_is_the_linear_programme() -> None:
    rng = np.random.default_rng(6)
    for upper, slack in [(1.3, 0.1), (3.0, 0.0), (100.0, 0.5)]:
        slope, w = rng.normal(size=6) + 0.5, np.ones(6)
        rows = np.array([np.ones(6), -np.ones(6)])
        lp = optimize.linprog(slope, rows, [6 * (1 + slack), -6 * (1 - slack)], bounds=(0, upper))
        assert ref.kmm_gap(w, slope, upper, slack) == pytest.approx(slope @ w - lp.fun, abs=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_kliep_against_a_grid_and_kkt(seed: int) -> None:
    z, v = points(seed, n=15, m=2, d=1)
    mean = ref.psi_bar(z, v, WIDTH)
    grid = [ref.kl_objective(np.array([t, 1 - t]) / mean, z, v, WIDTH) for t in np.linspace(0, 1, 2001)]
    assert ref.kliep_reference(z, v, WIDTH).value == pytest.approx(min(grid), abs=1e-6)
    z, v = points(seed, n=60, m=25, d=1)
    found = ref.kliep_reference(z, v, WIDTH)
    mean = ref.psi_bar(z, v, WIDTH)
    assert found.gap < 1e-7
    assert np.all(found.point >= 0)
    assert mean @ found.point == pytest.approx(1.0, abs=1e-12)
    kkt = ref.kl_rescaled_gradient(found.point, z, v, WIDTH)
    assert np.min(kkt / mean) > -1e-7
    assert np.max(np.abs(kkt * found.point)) < 1e-6
    alpha, psi = np.full(25, 1 / 25), ref.gaussian(v, v, WIDTH) / mean  # EM only ever descends to it
    for _ in range(3000):
        alpha = alpha * (psi.T @ (1 / (psi @ alpha))) / 25
    assert found.value <= ref.kl_objective(alpha / mean, z, v, WIDTH) + 1e-9
    assert ref.kl_objective(alpha / mean, z, v, WIDTH) == pytest.approx(found.value, abs=1e-3)


@pytest.mark.parametrize("penalty", [0.0, 1e-5, 0.2])
def test_lsif_against_nnls_and_kkt(penalty: float) -> None:
    z, v = points(7, n=30, m=6)
    found = ref.lsif_reference(z, v, WIDTH, penalty)
    slope = ref.squared_gradient(found.point, z, v, WIDTH, penalty)
    assert abs(found.gap) < 1e-9
    assert found.value == pytest.approx(ref.squared_objective(found.point, z, v, WIDTH, penalty), rel=1e-12)
    assert np.min(slope) > -1e-8
    assert np.max(np.abs(slope * found.point)) < 1e-8
    H, h = ref.squared_terms(z, v, WIDTH)
    factor = np.linalg.cholesky(H)
    other, _ = optimize.nnls(factor.T, np.linalg.solve(factor, h - penalty))
    np.testing.assert_allclose(found.point, other, atol=1e-6)


def test_lsif_large_penalty_and_unreachable_centres() -> None:
    z, v = points(8)
    np.testing.assert_array_equal(ref.lsif_reference(z, v, WIDTH, 2.0).point, np.zeros(5))
    far = np.array([[0.0], [1e6]])
    for solve in (
        lambda: ref.kliep_reference(z[:, :1], far, 1.0),
        lambda: ref.lsif_reference(z[:, :1], far, 1.0, 0),
    ):
        with pytest.raises(ValueError, match="unbounded"):
            solve()
