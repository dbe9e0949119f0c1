"""Problems whose true density ratio p_test / p_train is known in closed form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """`sample(seed, n_train, n_test)` gives z_train (n, d) and z_test (m, d); `ratio(z)` the truth at z."""

    name: str
    sample: Callable[[int, int, int], tuple[Array, Array]]
    ratio: Callable[[Array], Array]


def _log_normal(z: Array, mean: float, std: float) -> Array:
    return -((z - mean) ** 2) / (2.0 * std**2) - np.log(std * np.sqrt(2.0 * np.pi))


def gaussian_shift(
    dim: int = 1,
    train_mean: float = 0.0,
    train_std: float = 1.0,
    test_mean: float = 1.0,
    test_std: float = 0.5,
) -> Problem:
    """Independent normals in `dim` dimensions. Mean and spread differ in the first coordinate only.

    The other coordinates are N(train_mean, train_std^2) on both sides, so the ratio does not depend on `dim`.
    It is bounded as long as test_std < train_std.
    """

    def sample(seed: int, n_train: int, n_test: int) -> tuple[Array, Array]:
        rng = np.random.default_rng(seed)
        z_train = rng.normal(train_mean, train_std, size=(n_train, dim))
        z_test = rng.normal(train_mean, train_std, size=(n_test, dim))
        z_test[:, 0] = rng.normal(test_mean, test_std, size=n_test)
        return z_train, z_test

    def ratio(z: Array) -> Array:
        first = np.asarray(z, dtype=np.float64)[:, 0]
        exponent = (first - train_mean) ** 2 / (2 * train_std**2) - (first - test_mean) ** 2 / (2 * test_std**2)
        return train_std / test_std * np.exp(exponent)

    return Problem(f"gaussian-{dim}d", sample, ratio)


def gaussian_shift_all(dim: int = 3, shift: float = 0.5, test_std: float = 0.8) -> Problem:
    """p_train = N(0, I) and p_test = N(shift 1, test_std^2 I): every coordinate moves."""

    def sample(seed: int, n_train: int, n_test: int) -> tuple[Array, Array]:
        rng = np.random.default_rng(seed)
        return rng.normal(size=(n_train, dim)), rng.normal(shift, test_std, size=(n_test, dim))

    def ratio(z: Array) -> Array:
        z = np.asarray(z, dtype=np.float64)
        exponent = np.sum(z**2 / 2.0 - (z - shift) ** 2 / (2.0 * test_std**2), axis=1)
        return np.exp(exponent) / test_std**dim

    return Problem(f"gaussian-all-{dim}d", sample, ratio)


def uniform_linear(tilt: float = 1.0) -> Problem:
    """p_train uniform on [0, 1], p_test(z) = 1 - tilt + 2 tilt z there (0 < tilt <= 1; one gives 2z)."""
    if not 0.0 < tilt <= 1.0:
        raise ValueError("tilt must lie in (0, 1]")

    def sample(seed: int, n_train: int, n_test: int) -> tuple[Array, Array]:
        rng = np.random.default_rng(seed)
        z_train = rng.uniform(size=(n_train, 1))
        level = rng.uniform(size=(n_test, 1))  # solves (1 - tilt) z + tilt z^2 = level
        return z_train, (np.sqrt((1.0 - tilt) ** 2 + 4.0 * tilt * level) - (1.0 - tilt)) / (2.0 * tilt)

    def ratio(z: Array) -> Array:
        first = np.asarray(z, dtype=np.float64)[:, 0]
        return np.where((first >= 0.0) & (first <= 1.0), 1.0 - tilt + 2.0 * tilt * first, 0.0)

    return Problem("uniform-linear", sample, ratio)


def loss_mixture(
    rate: float = 0.4,
    clean: str = "exponential",
    clean_mean: float = 0.3,
    clean_std: float = 0.3,
    noisy_mean: float = 3.0,
    noisy_std: float = 0.7,
) -> Problem:
    """Losses under label noise: p_test = p_clean, p_train = (1 - rate) p_clean + rate p_noisy.

    `clean` is "exponential" (mean clean_mean) or "gaussian" (clean_mean, clean_std); mislabelled losses are
    normal. The ratio p_clean / p_train lies between 0 and 1 / (1 - rate).
    """
    if clean not in ("exponential", "gaussian"):
        raise ValueError(f"clean must be 'exponential' or 'gaussian', not {clean!r}")

    def clean_sample(rng: np.random.Generator, size: int) -> Array:
        if clean == "exponential":
            return rng.exponential(clean_mean, size=size)
        return rng.normal(clean_mean, clean_std, size=size)

    def log_clean(z: Array) -> Array:
        if clean == "exponential":
            return np.where(z >= 0.0, -z / clean_mean - np.log(clean_mean), -np.inf)
        return _log_normal(z, clean_mean, clean_std)

    def sample(seed: int, n_train: int, n_test: int) -> tuple[Array, Array]:
        rng = np.random.default_rng(seed)
        flipped = rng.uniform(size=n_train) < rate
        noisy = rng.normal(noisy_mean, noisy_std, size=n_train)
        z_train = np.where(flipped, noisy, clean_sample(rng, n_train))
        return z_train[:, None], clean_sample(rng, n_test)[:, None]

    def ratio(z: Array) -> Array:
        first = np.asarray(z, dtype=np.float64)[:, 0]
        odds = np.minimum(_log_normal(first, noisy_mean, noisy_std) - log_clean(first), 700.0)  # exp stays finite
        return np.where(odds >= 700.0, 0.0, 1.0 / (1.0 - rate + rate * np.exp(odds)))

    return Problem(f"loss-mixture-{clean}", sample, ratio)


def all_problems() -> tuple[Problem, ...]:
    """One of each, with its default parameters."""
    return (
        gaussian_shift(),
        gaussian_shift(dim=3),
        gaussian_shift_all(),
        uniform_linear(),
        loss_mixture(),
        loss_mixture(clean="gaussian", clean_std=0.2),
    )
