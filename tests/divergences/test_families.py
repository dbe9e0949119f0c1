"""The divergences beyond the paper's against independent references: scipy, scikit-learn, loops in numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import optimize, stats
from scipy.spatial.distance import cdist
from sklearn.metrics import log_loss

from adiw import estimate_weights
from adiw.divergences import (
    KL,
    MMD,
    Energy,
    Hellinger,
    JensenShannon,
    Power,
    Relative,
    Sliced,
    Wasserstein,
)
from adiw.divergences.sliced import gaussian_directions
from adiw.matching.batches import match
from adiw.reweighting.divergence_estimator import descend

Array = NDArray[np.float64]
WIDTH = 0.7


def batch(seed: int, n: int = 14, m: int = 6, dim: int = 1) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, dim)), rng.normal(0.5, 0.6, size=(m, dim))


def tensors(*arrays: Array) -> tuple[torch.Tensor, ...]:
    return tuple(map(torch.from_numpy, arrays))


def psi(z: Array, v: Array) -> Array:
    return np.exp(-cdist(z, v, "sqeuclidean") / (2 * WIDTH**2))


def power_loss(beta: Array, z: Array, v: Array, power: float) -> float:
    """From the variational form: -E_val f'(r) for r = s^(1 / (1 + power)), up to a constant and the factor."""
    s = psi(v, v) @ beta
    r = s ** (1 / (1 + power))
    return float(-np.mean(np.log(r) if power == 0 else (r**power - 1) / power * (1 + power)))


def logistic_loss(beta: Array, z: Array, v: Array) -> float:
    """scikit-learn's loss of a classifier with these odds, both samples with the same total weight."""
    odds = np.concatenate([psi(z, v) @ beta, psi(v, v) @ beta])
    label = np.repeat([0, 1], [len(z), len(v)])
    weight = np.repeat([1 / len(z), 1 / len(v)], [len(z), len(v)])
    return float(2 * log_loss(label, odds / (1 + odds), sample_weight=weight))


RATIOS: dict[str, tuple[Any, Callable[[Array, Array, Array], float]]] = {
    "pearson": (Power, lambda b, z, v: power_loss(b, z, v, 1.0)),
    "power 0.4": (lambda *given, **more: Power(*given, **more, power=0.4), lambda b, z, v: power_loss(b, z, v, 0.4)),
    "power 0": (lambda *given, **more: Power(*given, **more, power=0.0), lambda b, z, v: power_loss(b, z, v, 0.0)),
    "hellinger": (Hellinger, lambda b, z, v: power_loss(b, z, v, -0.5)),
    "jensen-shannon": (JensenShannon, logistic_loss),
}


@pytest.mark.parametrize("dim", [1, 3])
@pytest.mark.parametrize("name", RATIOS)
def test_the_fit_of_a_density_ratio(name: str, dim: int) -> None:
    kind, loss = RATIOS[name]
    z, v = batch(0, dim=dim)
    beta = np.random.default_rng(1).uniform(0.2, 2.0, size=6)
    mass = psi(z, v).mean(0) @ beta
    batches = match(*tensors(z, v))
    plain, rescaled = (kind(WIDTH, update=update).problem(batches) for update in ("euclidean", "optimum"))
    assert float(plain.objective(torch.from_numpy(beta))) == pytest.approx(loss(beta, z, v), abs=1e-9)
    assert float(rescaled.objective(torch.from_numpy(beta))) == pytest.approx(loss(beta / mass, z, v), abs=1e-9)
    numeric = optimize.approx_fprime(beta, lambda b: loss(b, z, v), 1e-7)
    np.testing.assert_allclose(plain.gradient(torch.from_numpy(beta)).numpy(), numeric, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("update", ["optimum", "euclidean"])
@pytest.mark.parametrize("name", RATIOS)
def test_long_runs_reach_the_optimum_of_scipy(name: str, update: str) -> None:
    kind, loss = RATIOS[name]
    z, v = batch(2)
    bar = psi(z, v).mean(0)
    found = optimize.minimize(
        loss,
        np.full(6, 1 / bar.sum()),
        (z, v),
        method="SLSQP",
        bounds=[(0, None)] * 6,
        constraints={"type": "eq", "fun": lambda b: bar @ b - 1},
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    problem = kind(WIDTH, update=update).problem(match(*tensors(z, v)))
    end = descend(problem, problem.initial(), 2.0, steps=2000)
    assert loss(end.numpy(), z, v) == pytest.approx(found.fun, abs=1e-9)
    assert float(problem.weights(end).mean()) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("update", ["rescale", "optimum", "euclidean"])
def test_the_power_zero_is_kullback_leibler(update: Any) -> None:
    z = tensors(*batch(3, dim=2))
    found, _ = estimate_weights(*z, Power(WIDTH, 0.2, power=0.0, update=update), steps=7)
    expected, _ = estimate_weights(*z, KL(WIDTH, 0.2, update), steps=7)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_weights_of_the_power_family_are_the_root_of_the_model() -> None:
    z, v = batch(4)
    beta = np.random.default_rng(5).uniform(0.2, 2.0, size=6)
    for power in (1.0, 0.3, -0.5):
        problem = Power(WIDTH, power=power).problem(match(*tensors(z, v)))
        ratio = (psi(z, v) @ beta) ** (1 / (1 + power))
        np.testing.assert_allclose(problem.weights(torch.from_numpy(beta)).numpy(), ratio / ratio.mean(), rtol=1e-12)


@pytest.mark.parametrize("dim", [1, 3])
@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5])
def test_relative_reaches_the_optimum_of_scipy(alpha: float, dim: int) -> None:
    """min_b 1/2 b'Hb - c'b over b >= 0 is scipy's non-negative least squares for a root of H."""
    z, v = batch(6, dim=dim)
    penalty = 0.01
    H = (1 - alpha) * psi(z, v).T @ psi(z, v) / len(z) + alpha * psi(v, v).T @ psi(v, v) / len(v)
    c = psi(v, v).mean(0) - penalty
    value, vector = np.linalg.eigh(H)
    root = np.sqrt(np.maximum(value, 0))[:, None] * vector.T
    best, _ = optimize.nnls(root, np.linalg.lstsq(root.T, c, rcond=None)[0])
    problem = Relative(WIDTH, alpha=alpha, penalty=penalty).problem(match(*tensors(z, v)))
    beta = np.random.default_rng(7).uniform(size=6)
    here = torch.from_numpy(beta)
    assert float(problem.objective(here)) == pytest.approx(beta @ H @ beta / 2 - c @ beta, abs=1e-12)
    np.testing.assert_allclose(problem.gradient(here).numpy(), H @ beta - c, atol=1e-12)
    end, scale = problem.initial(), problem.step_scale
    for _ in range(20_000):
        end = problem.project(end - scale * problem.gradient(end))
    assert float(problem.objective(end)) == pytest.approx(best @ H @ best / 2 - c @ best, abs=1e-6)


def test_relative_weights_are_bounded_by_one_over_alpha() -> None:
    """A single validation sample far from the others has a ratio of about fifty."""
    z, v = torch.cat([torch.zeros(49), torch.tensor([3.0])]), torch.full((20,), 3.0)
    plain, _ = estimate_weights(z, v, Relative(WIDTH, 1.0, alpha=0.0), steps=200)
    assert float(plain.max()) > 40
    for alpha in (0.1, 0.2, 0.5):
        weights, _ = estimate_weights(z, v, Relative(WIDTH, 1.0, alpha=alpha), steps=200)
        assert float(weights.max()) <= 1 / alpha
        expected = 1 / (alpha + (1 - alpha) / 50)
        assert float(weights.max()) == pytest.approx(expected, rel=0.01)


def test_the_energy_distance_is_scipys() -> None:
    z, v = batch(8)
    w = np.random.default_rng(9).exponential(size=14)
    w /= w.mean()
    problem = Energy(scale=1.0).problem(match(*tensors(z, v)))
    found = float(problem.objective(torch.from_numpy(w))) / 14 - cdist(v, v).mean()
    assert found == pytest.approx(stats.energy_distance(z[:, 0], v[:, 0], w) ** 2, abs=1e-12)


def test_the_energy_distance_of_vectors_has_euclidean_distances() -> None:
    z, v = batch(10, dim=3)
    w = np.random.default_rng(11).exponential(size=14)
    expected = 2 * w @ cdist(z, v).mean(1) - w @ cdist(z, z) @ w / 14
    for scale in (1.0, 4.0):
        problem = Energy(scale=scale).problem(match(*tensors(z, v)))
        assert float(problem.objective(torch.from_numpy(w))) == pytest.approx(expected / scale, rel=1e-12)


@pytest.mark.parametrize("dim", [1, 3])
def test_energy_reaches_the_optimum_of_scipy(dim: int) -> None:
    z, v = batch(12, dim=dim)

    def value(w: Array) -> float:
        return float(2 * w @ cdist(z, v).mean(1) - w @ cdist(z, z) @ w / 14)

    found = optimize.minimize(
        value,
        np.ones(14),
        method="SLSQP",
        bounds=[(0, None)] * 14,
        constraints={"type": "eq", "fun": lambda w: w.mean() - 1},
        options={"ftol": 1e-14, "maxiter": 2000},
    )
    weights, _ = estimate_weights(*tensors(z, v), Energy(1.0, scale=1.0), steps=5000)
    assert value(weights.numpy()) == pytest.approx(found.fun, abs=1e-9)


@pytest.mark.parametrize("steps", [1, 5])
def test_sliced_on_scalars_is_the_exact_wasserstein_distance(steps: int) -> None:
    z = tensors(*batch(13, n=31, m=20))
    for scale in (1.0, "auto"):
        found, _ = estimate_weights(*z, Sliced(0.05, scale=scale), steps)  # type: ignore[arg-type]
        expected, _ = estimate_weights(*z, Wasserstein(step_size=0.05, scale=scale), steps)  # type: ignore[arg-type]
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("divergence", [Sliced(), Wasserstein()])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_does_not_move_weights_of_zero(dtype: torch.dtype, divergence: Sliced | Wasserstein) -> None:
    """Beyond the last sample with a weight the distributions agree, and their difference is rounding."""
    z, v = torch.linspace(0.1, 5.0, 50, dtype=dtype)[:, None], torch.linspace(0.05, 0.95, 7, dtype=dtype)[:, None]
    w = (torch.arange(50) < 9).to(dtype) * 50 / 9
    gradient = divergence.problem(match(z, v)).gradient(w)
    assert gradient[12:].tolist() == [0.0] * 38
    assert float(gradient[:8].abs().max()) > 0.05


def test_sliced_is_the_mean_of_scipys_distances() -> None:
    z, v = batch(14, dim=5)
    w = np.random.default_rng(15).exponential(size=14)
    w /= w.mean()
    directions = gaussian_directions(5, 16, torch.from_numpy(z)).numpy()
    expected = [stats.wasserstein_distance(z @ t, v @ t, w) for t in directions.T]
    problem = Sliced(scale=1.0, directions=16).problem(match(*tensors(z, v)))
    assert float(problem.objective(torch.from_numpy(w))) == pytest.approx(14 * np.mean(expected), rel=1e-12)


@pytest.mark.parametrize("dim", [4, 64, 512])
def test_directions_measure_lengths_and_are_spread_out(dim: int) -> None:
    """A shift by x has about the distance |x|; the angles between directions are those of random ones."""
    t = gaussian_directions(dim, 64, torch.zeros((), dtype=torch.float64))
    x = torch.randn(200, dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert float(((x @ t).abs().mean(1) / x.norm(dim=1)).mean()) == pytest.approx(1, abs=0.07)
    unit = t / t.norm(dim=0)
    cosines = (unit.T @ unit - torch.eye(64)).abs().sum() / (64 * 63)
    assert float(cosines) == pytest.approx((2 / np.pi / dim) ** 0.5, rel=0.12)


def test_directions_stay_the_same() -> None:
    """A run that is resumed with another version, or in another precision, continues with these."""
    expected = [[1.1573, 0.4240, -0.1951], [0.2911, 1.2929, 1.7362]]
    for dtype in (torch.float32, torch.float64):
        found = gaussian_directions(2, 3, torch.zeros((), dtype=dtype))
        torch.testing.assert_close(found, torch.tensor(expected, dtype=dtype), rtol=0, atol=1e-4)


@pytest.mark.parametrize("dim", [1, 3])
def test_directions_are_on_the_device_and_there_is_one_for_scalars(dim: int) -> None:
    found = gaussian_directions(dim, 5, torch.zeros((), device="meta"))
    assert (found.device.type, found.shape) == ("meta", (dim, 1 if dim == 1 else 5))


def test_the_largest_features_have_a_finite_sliced_distance() -> None:
    largest = torch.finfo(torch.float32).max
    z = torch.full((6, 2048), largest)
    problem = Sliced(scale=1.0).problem(match(z, -z))
    assert bool(problem.objective(torch.ones(6)).isfinite())
    assert bool(problem.gradient(torch.ones(6)).isfinite().all())


KERNELS: dict[str, Callable[[Array, Array], Array]] = {
    "gaussian": psi,
    "laplace": lambda a, b: np.exp(-cdist(a, b) / WIDTH),
    "rational-quadratic": lambda a, b: 1 / (1 + cdist(a, b, "sqeuclidean") / (2 * WIDTH**2)),
    "linear": lambda a, b: a @ b.T / WIDTH**2,
}


@pytest.mark.parametrize("dim", [1, 3])
@pytest.mark.parametrize("name", KERNELS)
def test_the_kernels_of_mmd(name: Any, dim: int) -> None:
    z, v = batch(16, dim=dim)
    w = np.random.default_rng(17).uniform(size=14)
    K, k = KERNELS[name](z, z), 14 / 6 * KERNELS[name](z, v).sum(1)
    problem = MMD(WIDTH, kernel=name).problem(match(*tensors(z, v)))
    assert float(problem.objective(torch.from_numpy(w))) == pytest.approx(w @ K @ w - 2 * k @ w, rel=1e-7)
    np.testing.assert_allclose(problem.gradient(torch.from_numpy(w)).numpy(), 2 * (K @ w - k), rtol=1e-6, atol=1e-6)


def test_a_linear_kernel_matches_the_means() -> None:
    z, v = batch(18, n=40, m=20)
    divergence = MMD(1.0, step_size=0.3, step="local", kernel="linear", slack=0.0)
    weights, _ = estimate_weights(*tensors(z, v), divergence, steps=300)
    assert float(weights @ torch.from_numpy(z[:, 0])) / 40 == pytest.approx(v.mean(), abs=1e-6)
