"""Objectives, gradients and one-dimensional transport, written from the paper's equations with plain numpy.

Everything is float64 and favours clarity over speed. The width is always sigma in exp(-||a - b||^2 / (2
sigma^2)). Training points are `z_train` (n, d), validation points `z_val` (m, d). The solvers of the same
problems live in `solvers` and are re-exported here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tests.oracles.solvers import (
    Solution,
    kliep_reference,
    kmm_gap,
    kmm_qp,
    lsif_reference,
    project_qp,
)

__all__ = [
    "Solution",
    "gaussian",
    "kl_gradient",
    "kl_objective",
    "kl_rescaled_gradient",
    "kliep_reference",
    "kmm_gap",
    "kmm_qp",
    "lsif_reference",
    "mmd_gradient",
    "mmd_objective",
    "mmd_terms",
    "parametric_weights",
    "project_qp",
    "psi_bar",
    "squared_gradient",
    "squared_objective",
    "squared_terms",
    "wasserstein_1d",
    "wasserstein_critic_1d",
]

Array = NDArray[np.float64]


def gaussian(a: Array, b: Array, width: float) -> Array:
    """Kernel matrix: entry (i, j) is exp(-||a_i - b_j||^2 / (2 width^2))."""
    out = np.empty((len(a), len(b)))
    for i in range(len(a)):
        for j in range(len(b)):
            gap = np.asarray(a[i], dtype=np.float64) - np.asarray(b[j], dtype=np.float64)
            out[i, j] = np.exp(-np.sum(gap * gap) / (2.0 * width * width))
    return out


# Maximum mean discrepancy (kernel mean matching)


def mmd_terms(z_train: Array, z_val: Array, width: float) -> tuple[Array, Array]:
    """K_ij = k(z_i, z_j) over training pairs, and k_i = n/m times the sum over j of k(z_i, z_j^val)."""
    n, m = len(z_train), len(z_val)
    return gaussian(z_train, z_train, width), n / m * gaussian(z_train, z_val, width).sum(axis=1)


def mmd_objective(w: Array, z_train: Array, z_val: Array, width: float) -> float:
    """J(w) = w'Kw - 2 k'w: n^2 times the squared MMD of the weighted sample, up to a constant."""
    K, k = mmd_terms(z_train, z_val, width)
    return float(w @ K @ w - 2.0 * k @ w)


def mmd_gradient(w: Array, z_train: Array, z_val: Array, width: float) -> Array:
    """Gradient of J: 2 (Kw - k), not divided by n."""
    K, k = mmd_terms(z_train, z_val, width)
    return 2.0 * (K @ w - k)


# Kullback-Leibler divergence (KLIEP); the weight model is beta'psi(z) with one Gaussian per validation point


def parametric_weights(beta: Array, z_train: Array, z_val: Array, width: float) -> Array:
    """Weights of the linear-in-parameter model at the training points: g(z_i) = sum_l beta_l psi_l(z_i)."""
    return gaussian(z_train, z_val, width) @ beta


def psi_bar(z_train: Array, z_val: Array, width: float) -> Array:
    """Mean basis vector over the training points; beta'psi_bar is then the mean training weight."""
    return gaussian(z_train, z_val, width).mean(axis=0)


def kl_objective(beta: Array, z_train: Array, z_val: Array, width: float) -> float:
    """J(beta) = -(1/m) sum_j log beta'psi(z_j^val). `z_train` enters the constraint only."""
    del z_train
    return float(-np.mean(np.log(gaussian(z_val, z_val, width) @ beta)))


def kl_gradient(beta: Array, z_train: Array, z_val: Array, width: float) -> Array:
    """Gradient of J: -(1/m) sum_j psi(z_j^val) / (beta'psi(z_j^val))."""
    del z_train
    psi = gaussian(z_val, z_val, width)
    total = np.zeros(len(z_val))
    for j in range(len(z_val)):
        total -= psi[j] / (psi[j] @ beta)
    return total / len(z_val)


def kl_rescaled_gradient(beta: Array, z_train: Array, z_val: Array, width: float) -> Array:
    """Gradient of J at beta / (psi_bar'beta), that is of J(beta) + log psi_bar'beta.

    Zero (or positive where beta_l = 0) exactly at KLIEP's optimum, up to scale.
    """
    mean = psi_bar(z_train, z_val, width)
    return kl_gradient(beta, z_train, z_val, width) + mean / (mean @ beta)


# Squared distance (LSIF), the same weight model


def squared_terms(z_train: Array, z_val: Array, width: float) -> tuple[Array, Array]:
    """H = (1/n) sum_i psi(z_i) psi(z_i)' over training points, h = (1/m) sum_j psi(z_j^val)."""
    psi = gaussian(z_train, z_val, width)
    return psi.T @ psi / len(z_train), gaussian(z_val, z_val, width).mean(axis=0)


def squared_objective(beta: Array, z_train: Array, z_val: Array, width: float, penalty: float) -> float:
    """J(beta) = 1/2 beta'H beta - h'beta + penalty times the sum of beta (beta >= 0)."""
    H, h = squared_terms(z_train, z_val, width)
    return float(0.5 * beta @ H @ beta - h @ beta + penalty * np.sum(beta))


def squared_gradient(beta: Array, z_train: Array, z_val: Array, width: float, penalty: float) -> Array:
    """Gradient of J: H beta - h + penalty."""
    H, h = squared_terms(z_train, z_val, width)
    return H @ beta - h + penalty


# Wasserstein-1 distance of scalars


def _cdf_gaps(w: Array, z_train: Array, z_val: Array) -> tuple[Array, Array]:
    """Sorted distinct support and, on the interval after each support point, F_w - F_val."""
    n, m = len(z_train), len(z_val)
    if abs(np.mean(w) - 1.0) > 1e-6:
        raise ValueError("the weights must have mean one")
    z_train, z_val = np.ravel(z_train), np.ravel(z_val)
    support = np.array(sorted(set(z_train.tolist()) | set(z_val.tolist())))
    gaps = np.empty(len(support))
    for s, point in enumerate(support):
        below_train = sum(w[i] / n for i in range(n) if z_train[i] <= point)
        below_val = sum(1.0 / m for j in range(m) if z_val[j] <= point)
        gaps[s] = below_train - below_val
    return support, gaps


def wasserstein_1d(w: Array, z_train: Array, z_val: Array) -> float:
    """W1 of masses w_i / n on z_train and 1 / m on z_val: the area between the distribution functions."""
    support, gaps = _cdf_gaps(w, z_train, z_val)
    total = 0.0
    for s in range(len(support) - 1):
        total += abs(gaps[s]) * (support[s + 1] - support[s])
    return float(total)


def wasserstein_critic_1d(w: Array, z_train: Array, z_val: Array) -> tuple[Array, Array]:
    """An optimal critic Phi at (z_train, z_val): slope sign(F_w - F_val) on every gap, zero at the leftmost.

    mean_j Phi(z_j^val) - mean_i w_i Phi(z_i) equals W1. Where F_w = F_val to rounding the slope is zero.
    """
    support, gaps = _cdf_gaps(w, z_train, z_val)
    phi = {float(support[0]): 0.0}
    for s in range(len(support) - 1):
        slope = 0.0 if abs(gaps[s]) < 1e-12 else float(np.sign(gaps[s]))
        phi[float(support[s + 1])] = phi[float(support[s])] + slope * float(support[s + 1] - support[s])
    at_train = np.array([phi[float(z)] for z in np.ravel(z_train)])
    return at_train, np.array([phi[float(z)] for z in np.ravel(z_val)])
