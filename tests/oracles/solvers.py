"""Optima of the projection, KMM, KLIEP and LSIF problems by interior-point methods, each with a certificate.

Every `gap` is computed from the returned point, not by the solver: it is a proven bound on `value` minus the true
minimum, up to rounding. The kernel is written again here, in one vectorised line, so that the solvers are fast enough
for a few hundred points.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from cvxopt import matrix, solvers, spdiag
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

Array = NDArray[np.float64]
TIGHT = {"show_progress": False, "abstol": 1e-13, "reltol": 1e-13, "feastol": 1e-13, "maxiters": 200}


class Solution(NamedTuple):
    """A feasible minimiser, its objective and a bound on its suboptimality."""

    point: Array
    value: float
    gap: float


def _kernel(a: Array, b: Array, width: float) -> Array:
    return np.exp(-cdist(a, b, "sqeuclidean") / (2.0 * width**2))


def _box_band(n: int, upper: float, a: Array, low: float, high: float) -> tuple[Any, Any, Any, Any]:
    """Rows G x <= h, A x = b of {0 <= x <= upper, low <= a'x <= high}; infinite bounds give no row."""
    rows, sides = [-np.eye(n)], [np.zeros(n)]
    if np.isfinite(upper):
        rows.append(np.eye(n))
        sides.append(np.full(n, upper))
    if low == high:
        return (
            matrix(np.vstack(rows)),
            matrix(np.concatenate(sides)),
            matrix(a[None, :]),
            matrix([float(low)]),
        )
    for sign, side in ((1.0, high), (-1.0, -low)):
        if np.isfinite(side):
            rows.append(sign * a[None, :])
            sides.append(np.array([side]))
    return matrix(np.vstack(rows)), matrix(np.concatenate(sides)), None, None


def _qp(P: Array, q: Array, upper: float, a: Array, low: float, high: float) -> Array:
    G, h, A, b = _box_band(len(q), upper, a, low, high)
    result = solvers.qp(matrix(P), matrix(q), G, h, A, b, options=TIGHT)
    if result["x"] is None:
        raise RuntimeError(f"cvxopt gave no point: {result['status']}")
    return np.array(result["x"]).ravel()


def project_qp(v: Array, upper: float, a: Array, low: float, high: float) -> Array:
    """argmin 1/2 ||x - v||^2 subject to 0 <= x <= upper and low <= a'x <= high (infinite bounds allowed).

    cvxopt finds the active set on a rescaled problem. An interior point is only good to the square root of
    its gap where a bound is barely active, so the point is then polished: on a fixed active set the minimiser
    is v - mu a with mu set by the active side of the band, repeated until the set no longer changes.
    """
    v, a = np.asarray(v, dtype=np.float64), np.asarray(a, dtype=np.float64)
    most = sum((c * upper if c > 0 else 0.0) for c in a if c)
    least = sum((c * upper if c < 0 else 0.0) for c in a if c)
    if low > high or most < low - 1e-12 * max(1.0, abs(low)) or least > high + 1e-12 * max(1.0, abs(high)):
        raise ValueError("the set is empty")
    start = np.clip(v, 0.0, upper)
    if low <= a @ start <= high:
        return start
    scale = max(1.0, float(np.max(np.abs(v))))
    size = float(np.linalg.norm(a))
    unit, lo, hi = a / size, low / (size * scale), high / (size * scale)
    rough = scale * _qp(np.eye(len(v)), -v / scale, upper / scale, unit, lo, hi)
    target = low if a @ start < low else high
    free = (rough > 1e-7 * scale) & (rough < upper - 1e-7 * scale) & (a != 0)
    mu = float(np.mean((v - rough)[free] / a[free])) if free.any() else _edge_multiplier(v, upper, a, target)
    x = np.clip(v - mu * a, 0.0, upper)
    for _ in range(100):
        free = (x > 0.0) & (x < upper) & (a != 0)
        if not free.any() or abs(a @ x - target) <= 1e-15 * max(1.0, abs(target)):
            break
        mu += float((a @ x - target) / (a[free] @ a[free]))
        x = np.clip(v - mu * a, 0.0, upper)
    if abs(a @ x - target) > 1e-10 * max(1.0, abs(target)) or np.max(np.abs(x - rough)) > 1e-5 * scale:
        raise RuntimeError("the polished projection disagrees with the quadratic program")
    return x


def _edge_multiplier(v: Array, upper: float, a: Array, target: float) -> float:
    """A multiplier where every coordinate sits at a bound: the breakpoint that meets the target."""
    points = [(v[i] - bound) / a[i] for i in range(len(v)) if a[i] for bound in (0.0, upper) if np.isfinite(bound)]
    return float(min(points, key=lambda mu: abs(a @ np.clip(v - mu * a, 0.0, upper) - target)))


def kmm_gap(w: Array, gradient: Array, upper: float, slack: float) -> float:
    """max over feasible u of gradient'(w - u), which bounds J(w) - min J for convex J (the Frank-Wolfe gap).

    The linear programme over {0 <= u <= upper, |mean u - 1| <= slack} is solved by filling coordinates in
    order of their gradient: up to the upper mass while it is negative, on to the lower mass in any case.
    """
    n = len(w)
    least, most = n * max(0.0, 1.0 - slack), n * (1.0 + slack)
    mass, best = 0.0, 0.0
    for slope in np.sort(gradient):
        room = (most if slope < 0 else least) - mass
        put = min(upper, max(room, 0.0))
        mass += put
        best += put * float(slope)
    return float(gradient @ w - best)


def kmm_qp(z_train: Array, z_val: Array, width: float, upper: float, slack: float) -> Solution:
    """Minimum of w'Kw - 2k'w subject to 0 <= w <= upper and |mean(w) - 1| <= slack, without any ridge."""
    n, m = len(z_train), len(z_val)
    K = _kernel(z_train, z_train, width)
    k = n / m * _kernel(z_train, z_val, width).sum(axis=1)
    mean = np.full(n, 1.0 / n)
    w = project_qp(_qp(2.0 * K, -2.0 * k, upper, mean, 1.0 - slack, 1.0 + slack), upper, mean, 1 - slack, 1 + slack)
    return Solution(w, float(w @ K @ w - 2.0 * k @ w), kmm_gap(w, 2.0 * (K @ w - k), upper, slack))


def kliep_reference(z_train: Array, z_val: Array, width: float, tolerance: float = 1e-7) -> Solution:
    """Minimum of -mean log beta'psi over {beta >= 0, beta'psi_bar = 1}.

    With alpha_l = beta_l psi_bar_l this is maximum likelihood for mixture proportions of the known components
    R_jl = psi_l(z_j^val) / psi_bar_l. Its dual, max mean log nu_j subject to R'nu / m <= 1, has a diagonal
    Hessian; cvxopt solves it and alpha is the multiplier. Certificate: max_l (1/m) sum_j R_jl / (R alpha)_j -
    1 bounds the suboptimality on the simplex (concavity). A few EM steps, which never raise the objective,
    tidy the result.
    """
    m = len(z_val)
    mean = _kernel(z_train, z_val, width).mean(axis=0)
    if np.min(mean) <= 0.0:
        raise ValueError("a validation point has no training point within reach: the problem is unbounded")
    R = _kernel(z_val, z_val, width) / mean
    rows = np.vstack([R.T / m, -np.eye(m)])
    sides = np.concatenate([np.ones(m), np.zeros(m)])
    begin = matrix(0.5 / np.max(R.mean(axis=0)), (m, 1))

    def objective(x: Any = None, z: Any = None) -> Any:
        if x is None:
            return 0, begin
        if min(x) <= 0.0:
            return None
        value, slope = -sum(np.log(np.array(x).ravel())) / m, -(x**-1).T / m
        return (value, slope) if z is None else (value, slope, spdiag(z[0] * x**-2 / m))

    result = solvers.cp(objective, matrix(rows), matrix(sides), options=TIGHT)
    alpha = np.maximum(np.array(result["zl"]).ravel()[:m], 0.0)
    alpha /= alpha.sum()
    gap = float(np.max(R.T @ (1.0 / (R @ alpha))) / m - 1.0)
    for _ in range(1000):
        if gap <= 1e-3 * tolerance:
            break
        trial = alpha * (R.T @ (1.0 / (R @ alpha))) / m
        trial_gap = float(np.max(R.T @ (1.0 / (R @ trial))) / m - 1.0)
        if trial_gap >= gap:
            break
        alpha, gap = trial / trial.sum(), trial_gap
    if not gap <= tolerance:
        raise RuntimeError(f"KLIEP's certificate is {gap:.1e}, above {tolerance:.1e}")
    beta = alpha / mean
    return Solution(beta, float(-np.mean(np.log(_kernel(z_val, z_val, width) @ beta))), gap)


def lsif_reference(z_train: Array, z_val: Array, width: float, penalty: float) -> Solution:
    """Minimum of 1/2 b'Hb - (h - penalty)'b over b >= 0.

    Certificate: a scaling t with t Hb >= h - penalty makes tb feasible in the dual, whose value -t^2 b'Hb / 2
    is a lower bound. Where H is nearly singular compare objectives or weights, not b itself.
    """
    psi = _kernel(z_train, z_val, width)
    H = psi.T @ psi / len(z_train)
    c = _kernel(z_val, z_val, width).mean(axis=0) - penalty
    if np.all(c <= 0.0):
        return Solution(np.zeros(len(c)), 0.0, 0.0)
    if np.min(np.diag(H)) <= 0.0:
        raise ValueError("a validation point has no training point within reach: the problem is unbounded")
    unit = np.sqrt(np.diag(H))
    G, h, _, _ = _box_band(len(c), np.inf, unit, -np.inf, np.inf)
    try:
        result = solvers.qp(matrix(H / np.outer(unit, unit)), matrix(-c / unit), G, h, options=TIGHT)
    except ArithmeticError as error:
        raise ValueError(
            "a validation point is far from all training points: the problem is almost unbounded"
        ) from error
    b = np.maximum(np.array(result["x"]).ravel(), 0.0) / unit
    value = float(0.5 * b @ H @ b - c @ b)
    stretch = float(np.max(c / (H @ b)))
    gap = value + 0.5 * stretch**2 * float(b @ H @ b)
    if not gap <= 1e-7 * max(1.0, abs(value)):
        raise RuntimeError(f"LSIF's certificate is {gap:.1e} at the value {value:.3g}")
    return Solution(b, value, gap)
