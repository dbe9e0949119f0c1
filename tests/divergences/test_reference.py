"""The divergences against the independent reference: objectives, gradients, and Algorithms 1 and 2 step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from adiw import State, estimate_weights
from adiw.divergences import KL, MMD, Divergence, Squared, Wasserstein
from adiw.divergences.kl import Update
from adiw.matching.batches import match
from adiw.reweighting.divergence_estimator import run_estimation
from tests.oracles import algorithms as alg
from tests.oracles import reference as ref
from tests.oracles.problems import loss_mixture

WIDTH, PENALTY = 0.7, 0.02
TOLERANCE = 1e-10  # both sides compute in float64; the reference's projections are good to 1e-12
BatchFunction = Callable[[ref.Array, ref.Array, ref.Array], ref.Array]


@dataclass(frozen=True)
class Oracle:
    """A divergence beside its reference: functions of (params, z_train, z_val)."""

    divergence: Divergence
    objective: Callable[[ref.Array, ref.Array, ref.Array], float]
    gradient: BatchFunction
    project: BatchFunction
    dims: tuple[int, ...] = (1, 3)


def basis(z: ref.Array, v: ref.Array) -> ref.Array:
    return ref.gaussian(z, v, WIDTH)


def project_band(upper: float, slack: float | None) -> BatchFunction:
    def project(w: ref.Array, z: ref.Array, v: ref.Array) -> ref.Array:
        allowed = (np.sqrt(len(w)) - 1) / np.sqrt(len(w)) if slack is None else slack
        return ref.project_qp(w, upper, np.full(len(w), 1 / len(w)), 1 - allowed, 1 + allowed)

    return project


def project_rescale(beta: ref.Array, z: ref.Array, v: ref.Array) -> ref.Array:
    beta = np.maximum(beta, 0.0)
    return beta / (beta @ ref.psi_bar(z, v, WIDTH))


def project_mass(beta: ref.Array, z: ref.Array, v: ref.Array) -> ref.Array:
    return ref.project_qp(beta, np.inf, ref.psi_bar(z, v, WIDTH), 1.0, 1.0)


def kl_objective(beta: ref.Array, z: ref.Array, v: ref.Array) -> float:
    return ref.kl_objective(beta, z, v, WIDTH)


def kl_gradient(beta: ref.Array, z: ref.Array, v: ref.Array) -> ref.Array:
    return ref.kl_gradient(beta, z, v, WIDTH)


def mmd(upper: float, slack: float | None) -> Oracle:
    return Oracle(
        MMD(width=WIDTH, step_size=0.03, upper=upper, slack=slack, step="plain"),
        lambda w, z, v: ref.mmd_objective(w, z, v, WIDTH),
        lambda w, z, v: ref.mmd_gradient(w, z, v, WIDTH),
        project_band(upper, slack),
    )


ORACLES = {
    "mmd, tight": mmd(1.5, 0.1),
    "mmd, mean one": mmd(50.0, 0.0),
    "mmd, DIW's slack": mmd(50.0, None),
    "kl, rescale": Oracle(KL(WIDTH, 0.2, "rescale"), kl_objective, kl_gradient, project_rescale),
    "kl, euclidean": Oracle(KL(WIDTH, 0.2, "euclidean"), kl_objective, kl_gradient, project_mass),
    "kl, optimum": Oracle(
        KL(WIDTH, 0.2, "optimum"),
        lambda b, z, v: kl_objective(b / (ref.psi_bar(z, v, WIDTH) @ b), z, v),
        lambda b, z, v: ref.kl_rescaled_gradient(b, z, v, WIDTH),
        project_rescale,
    ),
    "squared": Oracle(
        Squared(WIDTH, 0.3, PENALTY),
        lambda b, z, v: ref.squared_objective(b, z, v, WIDTH, PENALTY),
        lambda b, z, v: ref.squared_gradient(b, z, v, WIDTH, PENALTY),
        lambda b, z, v: np.maximum(b, 0.0),
    ),
    "wasserstein": Oracle(
        Wasserstein("exact", 1.0, step_size=0.05),
        lambda w, z, v: len(w) * ref.wasserstein_1d(w, z, v),
        lambda w, z, v: -ref.wasserstein_critic_1d(w, z, v)[0],
        project_band(np.inf, 0.0),
        dims=(1,),
    ),
}
EVERY = [(name, dim) for name, oracle in ORACLES.items() for dim in oracle.dims]
every_oracle = pytest.mark.parametrize(("name", "dim"), EVERY)


def points(seed: int, n: int, m: int, d: int) -> tuple[ref.Array, ref.Array]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(0.5, 0.6, size=(m, d))


def params_of(oracle: Oracle, rng: np.random.Generator, n: int, m: int) -> ref.Array:
    """Positive parameters; with mean one if the reference needs it (transport needs equal masses)."""
    params = rng.uniform(0.2, 2.0, size=n if oracle.divergence.side == "train" else m)
    return params / params.mean() if isinstance(oracle.divergence, Wasserstein) else params


def close(found: Tensor, expected: ref.Array) -> None:
    np.testing.assert_allclose(found.numpy(), expected, rtol=TOLERANCE, atol=TOLERANCE)


@every_oracle
def test_objective_and_gradient(name: str, dim: int) -> None:
    oracle = ORACLES[name]
    z, v = points(0, 11, 7, dim)
    params = params_of(oracle, np.random.default_rng(1), 11, 7)
    problem = oracle.divergence.problem(match(torch.from_numpy(z), torch.from_numpy(v)))
    here = torch.from_numpy(params)
    assert float(problem.objective(here)) == pytest.approx(oracle.objective(params, z, v), rel=TOLERANCE)
    found, expected = problem.gradient(here), oracle.gradient(params, z, v)
    if isinstance(oracle.divergence, Wasserstein):  # its critic is unique up to a constant
        found, expected = found - found.mean(), expected - expected.mean()
    close(found, expected)
    close(problem.project(here - found), oracle.project(params - expected, z, v))
    close(problem.weights(here), params if oracle.divergence.side == "train" else basis(z, v) @ params)


@pytest.mark.parametrize("steps", [1, 5])
@every_oracle
def test_algorithm_1(name: str, dim: int, steps: int) -> None:
    oracle = ORACLES[name]
    z, v = points(2, 10, 6, dim)
    store = params_of(oracle, np.random.default_rng(3), 20, 20)
    membership_train = oracle.divergence.side == "train"
    index = np.random.default_rng(4).permutation(20)[: 10 if membership_train else 6]
    if isinstance(oracle.divergence, Wasserstein):
        store[index] /= store[index].mean()
    settings = (oracle.divergence.step_size, steps)
    if membership_train:
        new, expected = alg.algorithm1(store, index, z, v, oracle.gradient, oracle.project, *settings)
    else:
        functions = (oracle.gradient, oracle.project, basis)
        new, expected = alg.algorithm1_parametric(store, index, z, v, *functions, *settings)
    weights, state = estimate_weights(
        torch.from_numpy(z), torch.from_numpy(v), oracle.divergence, steps, State(torch.from_numpy(store[index]))
    )
    close(weights, expected)
    close(state.params, new[index])


def class_batch(dim: int) -> tuple[ref.Array, alg.Index, ref.Array, alg.Index]:
    """Classes 0 and 4 can be estimated; 1 has one validation sample, 2 one training sample, 3 no validation."""
    z, v = points(5, 14, 9, dim)
    return z, np.array([0, 1, 4, 0, 2, 1, 0, 3, 4, 0, 3, 4, 0, 4]), v, np.array([0, 1, 0, 2, 4, 0, 2, 4, 4])


@pytest.mark.parametrize("steps", [1, 5])
@every_oracle
def test_algorithm_2(name: str, dim: int, steps: int) -> None:
    oracle = ORACLES[name]
    z, y, v, y_val = class_batch(dim)
    membership_train = oracle.divergence.side == "train"
    labels = y if membership_train else y_val
    rng = np.random.default_rng(6)
    store, index = rng.uniform(0.2, 2.0, size=20), rng.permutation(20)[: len(labels)]
    if isinstance(oracle.divergence, Wasserstein):
        for label in np.unique(labels):
            store[index[labels == label]] /= store[index[labels == label]].mean()
    ratio = np.array([2.0, 3.0, 5.0, 7.0, 0.5])
    arguments = (store, index, z, y, v, y_val, ratio, oracle.gradient, oracle.project)
    settings = (oracle.divergence.step_size, steps)
    if membership_train:
        new, expected = alg.algorithm2_weights(*arguments, *settings)
    else:
        new, expected = alg.algorithm2_parametric(*arguments, basis, *settings)
    unit_z, unit_v = (torch.from_numpy(alg.l2_normalise(x)) for x in (z, v))
    batches = match(unit_z, unit_v, torch.from_numpy(y), torch.from_numpy(y_val), num_groups=5, minimum=2)
    params = torch.from_numpy(store[index])
    done = run_estimation(oracle.divergence, batches, params, {}, steps, torch.Generator())
    close(done.end, new[index])
    estimated = batches.group_train.numpy() >= 0
    assert set(y[estimated]) == {0, 4}
    weights = done.problem.weights(done.end).numpy() * ratio[y]
    close(torch.from_numpy(weights[estimated]), expected[estimated])


def test_long_runs_reach_the_reference_optimum() -> None:
    """Steps of about 1 / L against interior-point solutions; KMM and LSIF are ill-conditioned and converge slowly."""
    z, v = points(7, 30, 12, 1)
    tensors = torch.from_numpy(z), torch.from_numpy(v)
    width, penalty = 1.0, 0.01
    largest = np.linalg.eigvalsh(ref.gaussian(z, z, width))[-1]
    w, _ = estimate_weights(*tensors, MMD(width, step_size=0.5 / largest, slack=0.0, step="plain"), steps=300)
    best = ref.kmm_qp(z, v, width, 50.0, 0.0)
    assert ref.mmd_objective(w.numpy(), z, v, width) == pytest.approx(best.value, rel=1e-3)
    for update in ("optimum", "euclidean"):
        _, state = estimate_weights(*tensors, KL(width, 2.0, update), steps=300)
        value = ref.kl_objective(state.params.numpy(), z, v, width)
        assert value == pytest.approx(ref.kliep_reference(z, v, width).value, abs=1e-9)
    largest = np.linalg.eigvalsh(ref.squared_terms(z, v, width)[0])[-1]
    _, state = estimate_weights(*tensors, Squared(width, 1 / largest, penalty), steps=3000)
    value = ref.squared_objective(state.params.numpy(), z, v, width, penalty)
    assert value == pytest.approx(ref.lsif_reference(z, v, width, penalty).value, abs=1e-9)


def test_wasserstein_objective_falls_to_the_best_reachable() -> None:
    """If the training batch contains the validation batch, a distance of zero is possible."""
    rng = np.random.default_rng(8)
    z = rng.normal(size=(20, 1))
    v = z[:10]
    tensors = torch.from_numpy(z), torch.from_numpy(v)
    w, _ = estimate_weights(*tensors, Wasserstein("exact", 1.0, step_size=0.03), steps=1000)
    start = ref.wasserstein_1d(np.ones(20), z, v)
    assert ref.wasserstein_1d(w.numpy(), z, v) < 0.07 * start  # a fixed step size oscillates


def test_rescale_moves_the_objective_as_theory_says() -> None:
    """d/d eta of J((beta - eta g) / psi_bar'(beta - eta g)) at zero is -|g|^2 - psi_bar'g, since g'beta = -1.

    It is not always negative, so KL(update="rescale") is exempt from the check that a small step lowers J.
    """
    z, v = points(9, 12, 6, 1)
    problem = KL(WIDTH, update="rescale").problem(match(torch.from_numpy(z), torch.from_numpy(v)))
    signs = set()
    for seed in range(20):
        beta = problem.project(torch.from_numpy(np.random.default_rng(seed).exponential(size=6) ** 3))
        g, eta = problem.gradient(beta), 1e-6
        here, near, far = (float(problem.objective(problem.project(beta - t * g))) for t in (0, eta, 2 * eta))
        predicted = float(-g @ g - problem.psi_bar @ g)
        assert (4 * near - 3 * here - far) / (2 * eta) == pytest.approx(predicted, rel=1e-4, abs=1e-6)
        signs.add(predicted < 0)
    assert signs == {True, False}


@pytest.mark.parametrize("divergence", [KL(0.3, 0.5), MMD(0.1, 0.02), Squared(0.1, 0.5), Wasserstein(step_size=0.02)])
def test_mislabelled_losses_get_small_weights(divergence: Divergence) -> None:
    """With 40% label noise, after thirty steps noisy losses have at most a third of the weight of clean ones."""
    problem = loss_mixture(rate=0.4)
    z, v = problem.sample(0, 200, 100)
    weights, _ = estimate_weights(torch.from_numpy(z), torch.from_numpy(v), divergence, steps=30)
    clean = problem.ratio(z) > 1
    noisy = problem.ratio(z) < 0.1
    assert clean.sum() > 80
    assert noisy.sum() > 50
    assert float(weights[torch.from_numpy(noisy)].mean()) < float(weights[torch.from_numpy(clean)].mean()) / 3


def test_euclidean_kl_has_mean_weight_one_with_distant_centres() -> None:
    start = State(torch.ones(2))
    weights, _ = estimate_weights(
        torch.tensor([4.2, 4.3]), torch.tensor([0.0, 0.1]), KL(update="euclidean"), state=start
    )
    assert float(weights.mean()) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("update", ["rescale", "optimum", "euclidean"])
def test_kl_weights_are_uniform_in_a_class_out_of_reach(update: Update) -> None:
    """Class 1 has no training sample near a centre; class 0 is estimated as if class 1 were not there."""
    z_train, z_val = torch.tensor([[0.1], [0.5], [1e4], [2e4]]), torch.tensor([[0.2], [0.4], [0.0], [1.0]])
    groups = torch.tensor([0, 0, 1, 1])
    params = torch.full((4,), float("nan"))
    batches = match(z_train, z_val, groups, groups, num_groups=2)
    done = run_estimation(KL(WIDTH, 0.1, update), batches, params, {}, 2, torch.Generator())
    weights = done.problem.weights(done.end)
    alone, _ = estimate_weights(z_train[:2], z_val[:2], KL(WIDTH, 0.1, update), steps=2)
    assert weights[2:].tolist() == [1.0, 1.0]
    torch.testing.assert_close(weights[:2], alone)
