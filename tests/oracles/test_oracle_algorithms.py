"""The literal algorithms against the formulas, and the true ratios against quadrature and sample means."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from tests.oracles import algorithms as alg
from tests.oracles import problems as prob
from tests.oracles import reference as ref

WIDTH = 0.7


def points(seed: int, n: int = 9, m: int = 5, d: int = 2) -> tuple[ref.Array, ref.Array]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(0.5, 0.6, size=(m, d))


@pytest.mark.parametrize("problem", prob.all_problems(), ids=lambda p: p.name)
def test_true_ratio_carries_train_to_test(problem: prob.Problem) -> None:
    z, v = problem.sample(0, 40_000, 20_000)
    again, _ = problem.sample(0, 40_000, 20_000)
    np.testing.assert_array_equal(z, again)
    w = problem.ratio(z)
    assert w.shape == (len(z),)
    assert np.all(w >= 0)
    assert np.all(np.isfinite(problem.ratio(np.concatenate([z, v, 50 + z, -50 + z]))))
    for f in (np.ones_like, lambda x: x, lambda x: x**2, np.cos):
        left, right = w * f(z)[:, 0], f(v)[:, 0]
        error = np.sqrt(left.var() / len(z) + right.var() / len(v))
        assert abs(left.mean() - right.mean()) < 5 * error + 1e-12


def test_true_ratio_by_quadrature() -> None:
    shift = prob.gaussian_shift()
    for at in (-1.0, 0.3, 1.7):
        expected = stats.norm(1, 0.5).pdf(at) / stats.norm(0, 1).pdf(at)
        assert shift.ratio(np.array([[at]]))[0] == pytest.approx(expected, rel=1e-12)
    wide = prob.gaussian_shift_all(2)
    expected = stats.norm(0.5, 0.8).pdf([0.2, 1.1]).prod() / stats.norm(0, 1).pdf([0.2, 1.1]).prod()
    assert wide.ratio(np.array([[0.2, 1.1]]))[0] == pytest.approx(expected, rel=1e-12)
    mix = prob.loss_mixture()

    def mass(t: float) -> float:
        p_train = 0.6 * stats.expon(scale=0.3).pdf(t) + 0.4 * stats.norm(3, 0.7).pdf(t)
        return float(mix.ratio(np.array([[t]]))[0] * p_train)

    assert integrate.quad(mass, 0, 12, points=[0.5, 3.0])[0] == pytest.approx(1.0, abs=1e-6)
    assert mix.ratio(np.array([[-0.5], [60.0]]))[0] == 0.0


def mmd_step(w: ref.Array, z: ref.Array, v: ref.Array) -> ref.Array:
    return ref.mmd_gradient(w, z, v, WIDTH)


def mean_one(w: ref.Array, z: ref.Array, v: ref.Array) -> ref.Array:
    return ref.project_qp(w, 50.0, np.full(len(w), 1 / len(w)), 1.0, 1.0)


def basis(z: ref.Array, v: ref.Array) -> ref.Array:
    return ref.gaussian(z, v, WIDTH)


def kl_step(b: ref.Array, z: ref.Array, v: ref.Array) -> ref.Array:
    return ref.kl_gradient(b, z, v, WIDTH)


def clamp_rescale(b: ref.Array, z: ref.Array, v: ref.Array) -> ref.Array:
    b = np.maximum(b, 0.0)
    return b / (b @ ref.psi_bar(z, v, WIDTH))


def test_algorithm1() -> None:
    z, v = points(9)
    store, index = np.linspace(0.5, 1.5, 20), np.array([3, 1, 19, 0, 7, 8, 12, 5, 2])
    new, w = alg.algorithm1(store, index, z, v, mmd_step, mean_one, 0.02, 1)
    np.testing.assert_allclose(w, mean_one(store[index] - 0.02 * mmd_step(store[index], z, v), z, v), atol=1e-12)
    np.testing.assert_array_equal(new[index], w)
    np.testing.assert_array_equal(np.delete(new, index), np.delete(store, index))
    np.testing.assert_array_equal(store, np.linspace(0.5, 1.5, 20))
    two = alg.algorithm1(store, index, z, v, mmd_step, mean_one, 0.02, 2)[1]
    np.testing.assert_allclose(two, alg.algorithm1(new, index, z, v, mmd_step, mean_one, 0.02, 1)[1], atol=1e-12)
    long = alg.algorithm1(store, index, z, v, mmd_step, mean_one, 0.1, 400)[1]
    best = ref.kmm_qp(z, v, WIDTH, 50.0, 0.0)
    assert ref.mmd_objective(long, z, v, WIDTH) == pytest.approx(best.value, abs=1e-3)


def test_algorithm1_parametric() -> None:
    z, v = points(10)
    store, index = np.ones(9), np.array([8, 2, 4, 0, 5])
    new, w = alg.algorithm1_parametric(store, index, z, v, kl_step, clamp_rescale, basis, 0.1, 3)
    beta = np.ones(5)
    for _ in range(3):
        beta = clamp_rescale(beta - 0.1 * kl_step(beta, z, v), z, v)
    np.testing.assert_allclose(new[index], beta, atol=1e-13)
    np.testing.assert_allclose(w, ref.parametric_weights(beta, z, v, WIDTH), atol=1e-13)
    assert w.mean() == pytest.approx(1.0)
    assert np.all(np.delete(new, index) == 1.0)


def batch() -> tuple[ref.Array, alg.Index, ref.Array, alg.Index]:
    """Class 0 can be estimated; 1 has one validation sample, 2 one training sample, 3 no validation."""
    z, v = points(11, n=9, m=6, d=3)
    return z, np.array([0, 1, 0, 2, 1, 0, 3, 0, 3]), v, np.array([0, 1, 0, 2, 0, 2])


def test_algorithm2_weights() -> None:
    z, y, v, yv = batch()
    store, index = np.linspace(0.5, 2.0, 15), np.array([14, 2, 4, 6, 8, 10, 12, 1, 3])
    ratio = np.array([2.0, 3.0, 5.0, 7.0])
    new, w = alg.algorithm2_weights(store, index, z, y, v, yv, ratio, mmd_step, mean_one, 0.05, 2)
    rows, cols = np.flatnonzero(y == 0), np.flatnonzero(yv == 0)
    unit_z, unit_v = alg.l2_normalise(z)[rows], alg.l2_normalise(v)[cols]
    expected = alg.algorithm1(store, index[rows], unit_z, unit_v, mmd_step, mean_one, 0.05, 2)[1]
    np.testing.assert_allclose(np.linalg.norm(unit_z, axis=1), 1.0)
    np.testing.assert_allclose(new[index[rows]], expected, atol=1e-13)
    np.testing.assert_allclose(w[rows], 2.0 * expected, atol=1e-13)
    others = np.flatnonzero(y != 0)
    np.testing.assert_array_equal(new[index[others]], store[index[others]])
    np.testing.assert_allclose(w[others], ratio[y[others]] * store[index[others]])
    untouched, zeros = alg.algorithm2_weights(store, index, z, y, v, yv + 4, ratio, mmd_step, mean_one, 0.05, 2)
    np.testing.assert_array_equal(untouched, store)
    np.testing.assert_array_equal(zeros, np.zeros(9))


def test_algorithm2_parametric() -> None:
    z, y, v, yv = batch()
    store, index = np.linspace(0.5, 2.0, 8), np.array([7, 0, 5, 2, 3, 6])
    ratio = np.array([2.0, 3.0, 5.0, 7.0])
    args = (z, y, v, yv, ratio, kl_step, clamp_rescale, basis, 0.1, 2)
    new, w = alg.algorithm2_parametric(store, index, *args)
    unit_z, unit_v = alg.l2_normalise(z), alg.l2_normalise(v)
    rows, cols = np.flatnonzero(y == 0), np.flatnonzero(yv == 0)
    once = alg.algorithm1_parametric(
        store, index[cols], unit_z[rows], unit_v[cols], kl_step, clamp_rescale, basis, 0.1, 2
    )
    np.testing.assert_allclose(new, once[0], atol=1e-13)
    np.testing.assert_allclose(w[rows], 2.0 * once[1], atol=1e-13)
    lone = np.flatnonzero(y == 1)
    np.testing.assert_allclose(w[lone], 3.0 * store[0] * basis(unit_z[lone], unit_v[[1]])[:, 0], atol=1e-13)
    np.testing.assert_array_equal(w[y == 3], 0.0)
    fixed = alg.algorithm2_parametric(store, index, *args, skipped_weight=1.0)[1]
    np.testing.assert_allclose(fixed, np.where(y == 0, w, ratio[y]))
    nothing = alg.algorithm2_parametric(store, index, z, y, v, yv + 4, *args[4:])
    np.testing.assert_array_equal(nothing[0], store)
    np.testing.assert_array_equal(nothing[1], np.zeros(9))
