"""A few steps of the divergences beyond the paper's against loops in numpy, from stored parameters to weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from adiw import State, estimate_weights
from adiw.divergences import Energy, Hellinger, JensenShannon, Power, Relative, Sliced
from adiw.divergences.sliced import gaussian_directions
from tests.oracles import reference as ref

N, M, WIDTH, STEPS = 12, 7, 0.7, 5
Array = ref.Array
Step = Callable[[Array], Array]  # params -> params after a step
Model = tuple[Step, Callable[[Array], Array]]  # and the weights that params mean


def mean_one(w: Array) -> Array:
    return ref.project_qp(w, np.inf, np.full(N, 1 / N), 1.0, 1.0)


def ratio(
    z: Array, v: Array, update: str, eta: float, of_train: Any, of_val: Any, weigh: Callable[[Array], Array]
) -> Model:
    """beta'psi with a mean of one, for the slopes of the loss at the model's values on both batches."""
    psi_z, psi_v, bar = ref.gaussian(z, v, WIDTH), ref.gaussian(v, v, WIDTH), ref.psi_bar(z, v, WIDTH)

    def gradient(beta: Array) -> Array:
        return np.asarray(psi_z.T @ of_train(psi_z @ beta) / N + psi_v.T @ of_val(psi_v @ beta) / M)

    def step(beta: Array) -> Array:
        if update == "optimum":  # d J(beta / mass) / d beta
            mass = bar @ beta
            slope = gradient(beta / mass)
            beta = beta - eta * (slope / mass - bar * (slope @ beta) / mass**2)
        else:
            beta = beta - eta * gradient(beta)
        if update == "euclidean":
            return ref.project_qp(beta, np.inf, bar, 1.0, 1.0)
        beta = np.maximum(beta, 0)
        return beta / (bar @ beta)

    return step, lambda beta: weigh(psi_z @ beta)


def of_power(power: float) -> Callable[..., Model]:
    """s = r^(1 + power) maximises E_val of r^power, so the slope is that of s^q with q = power / (1 + power)."""
    q = power / (1 + power)

    def weigh(s: Array) -> Array:
        r = s ** (1 / (1 + power))
        return np.asarray(r / r.mean())

    return lambda z, v, update, eta: ratio(z, v, update, eta, np.zeros_like, lambda s: -(s ** (q - 1)), weigh)


def of_logistic(z: Array, v: Array, update: str, eta: float) -> Model:
    """The odds s of a classifier: log(1 + s) for a training sample, log(1 + 1 / s) for a validation sample."""
    return ratio(z, v, update, eta, lambda s: 1 / (1 + s), lambda s: 1 / (1 + s) - 1 / s, lambda s: s)


def of_relative(z: Array, v: Array, eta: float, alpha: float, penalty: float) -> Model:
    psi_z, psi_v = ref.gaussian(z, v, WIDTH), ref.gaussian(v, v, WIDTH)
    H, h = (1 - alpha) * psi_z.T @ psi_z / N + alpha * psi_v.T @ psi_v / M, psi_v.mean(0)

    def step(beta: Array) -> Array:
        return np.maximum(beta - eta * (H @ beta - h + penalty) / H.sum(1), 0)

    return step, lambda beta: np.minimum(psi_z @ beta, 1 / alpha)


def of_energy(z: Array, v: Array, eta: float) -> Model:
    def distance(a: Array, b: Array) -> Array:
        return np.array([[np.linalg.norm(x - y) for y in b] for x in a])

    return lambda w: mean_one(w - eta * 2 * (distance(z, v).mean(1) - distance(z, z) @ w / N)), lambda w: w


def of_sliced(z: Array, v: Array, eta: float, directions: int) -> Model:
    """A critic is unique up to a constant, which the projection removes."""
    lines = gaussian_directions(z.shape[1], directions, torch.zeros(1, dtype=torch.float64)).numpy().T

    def step(w: Array) -> Array:
        critics = [ref.wasserstein_critic_1d(w, (z @ t)[:, None], (v @ t)[:, None])[0] for t in lines]
        return mean_one(w + eta * np.mean(critics, axis=0))

    return step, lambda w: w


RATIOS = {
    "pearson": (Power, of_power(1.0)),
    "power 0.4": (lambda *given: Power(*given, power=0.4), of_power(0.4)),
    "hellinger": (Hellinger, of_power(-0.5)),
    "jensen-shannon": (JensenShannon, of_logistic),
}


def check(divergence: Any, model: Model, z: Array, v: Array, start: Array) -> None:
    step, weigh = model
    end = start
    for _ in range(STEPS):
        end = step(end)
    weights, state = estimate_weights(
        torch.from_numpy(z), torch.from_numpy(v), divergence, STEPS, State(torch.from_numpy(start))
    )
    assert not np.allclose(end, start, atol=1e-3)
    np.testing.assert_allclose(state.params.numpy(), end, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(weights.numpy(), weigh(end), rtol=1e-9, atol=1e-9)


def points(dim: int) -> tuple[Array, Array, Array, Array]:
    """Both batches, and positive parameters of each."""
    rng = np.random.default_rng(dim)
    z, v = rng.normal(size=(N, dim)), rng.normal(0.5, 0.6, size=(M, dim))
    w = rng.exponential(size=N)
    return z, v, w / w.mean(), rng.uniform(0.2, 2.0, size=M)


@pytest.mark.parametrize("dim", [1, 3])
@pytest.mark.parametrize("update", ["rescale", "optimum", "euclidean"])
@pytest.mark.parametrize("name", RATIOS)
def test_steps_of_a_density_ratio(name: str, update: str, dim: int) -> None:
    z, v, _, beta = points(dim)
    kind, model = RATIOS[name]
    check(kind(WIDTH, 0.1, update), model(z, v, update, 0.1), z, v, beta)


@pytest.mark.parametrize("dim", [1, 3])
def test_steps_of_the_relative_ratio(dim: int) -> None:
    z, v, _, beta = points(dim)
    check(Relative(WIDTH, 0.3, alpha=0.4, penalty=0.02), of_relative(z, v, 0.3, 0.4, 0.02), z, v, 3 * beta)


@pytest.mark.parametrize("dim", [1, 3])
def test_steps_of_the_distances(dim: int) -> None:
    z, v, w, _ = points(dim)
    check(Energy(0.1, scale=1.0), of_energy(z, v, 0.1), z, v, w)
    check(Sliced(0.1, scale=1.0, directions=5), of_sliced(z, v, 0.1, 5), z, v, w)
