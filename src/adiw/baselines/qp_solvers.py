"""The solvers of DIW's quadratic program by name, each (problem) -> weights (n,).

"gpu" solves it on the model's device, without host synchronisation, by a primal-dual interior-point method
(Mehrotra's predictor-corrector). Kernel matrices are almost singular, which slows projected gradients down but not
Newton's method. The number of iterations needed hardly depends on the problem, so it is fixed. Iterations after the
optimum may move away from it by rounding, so the best iterate is returned.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from adiw.divergences import MMDProblem
from adiw.matching.groups import masked
from adiw.versions import require

ITERATIONS = 20  # enough to agree with cvxopt, see tests/baselines/test_qp_solvers.py
State = tuple[Tensor, Tensor, Tensor]  # an iterate: x, its distances ``room`` = b - A x from the limits, dual
Progress = tuple[State, State, Tensor, Tensor]  # an iterate, its residuals, the best x so far, its largest residual


@dataclass(frozen=True)
class Inequalities:
    """A x <= b for the rows -x <= 0, x <= upper, mean(x) <= high, -mean(x) <= -low; never formed as a matrix."""

    average: Tensor  # (n,): average'x is the mean over the included samples
    bounds: Tensor  # b, (2n + 2,)

    def rows(self, x: Tensor) -> Tensor:
        """A x, (2n + 2,)."""
        mean = (self.average @ x)[None]
        return torch.cat([-x, x, mean, -mean])

    def columns(self, dual: Tensor) -> Tensor:
        """A'dual, (n,)."""
        return self.sides(dual) + self.average * self.of_mean(dual)

    def sides(self, dual: Tensor) -> Tensor:
        """The part of A'dual from the bounds of each weight, (n,)."""
        n = len(self.average)
        return dual[n : 2 * n] - dual[:n]

    def of_mean(self, dual: Tensor) -> Tensor:
        """The part of A'dual from the bounds of the mean is ``average`` times this scalar."""
        return dual[-2] - dual[-1]

    def solver(self, K: Tensor, scale: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
        """right (n,), dual (2n + 2,) -> (K + A' diag(scale) A)^-1 (right - A'dual).

        The rows of the mean are solved separately (Sherman-Morrison): when the mean is at its limit, their scale and
        dual grow without bound, and in one matrix with K they would cost precision.
        """
        n = len(self.average)
        factor, _ = torch.linalg.cholesky_ex(K + torch.diag(scale[:n] + scale[n : 2 * n]))
        direction = torch.cholesky_solve(self.average[:, None], factor)[:, 0]
        slack = 1 / (scale[-2] + scale[-1])
        direction = direction / (slack + self.average @ direction)

        def solve(right: Tensor, dual: Tensor) -> Tensor:
            solution = torch.cholesky_solve((right - self.sides(dual))[:, None], factor)[:, 0]
            return solution - direction * (self.average @ solution + slack * self.of_mean(dual))

        return solve


def advance(K: Tensor, k: Tensor, limits: Inequalities, progress: Progress) -> Progress:
    """One iteration. This is the function that ``DIW.compile`` compiles."""
    state, residuals, best, least = progress
    state = _iterate(K, limits, state, residuals)
    residuals = _residuals(K, k, limits, state)
    largest = torch.cat([part.abs() for part in residuals]).amax()
    best = torch.where(largest < least, state[0], best)  # a nan is never smaller, so the best iterate is finite
    return state, residuals, best, torch.fmin(largest, least)


def solve(problem: MMDProblem, iterations: int = ITERATIONS, advance: Callable[..., Progress] = advance) -> Tensor:
    """argmin_w 1/2 w'Kw - k'w  subject to  0 <= w <= upper,  |mean(w) - 1| <= slack.

    The problem must have one group and be in float64; weights of excluded samples are arbitrary.

    >>> K, k = torch.eye(2).double(), torch.tensor([3.0, -1.0]).double()
    >>> problem = MMDProblem(K, k, 50.0, torch.tensor([0.5]).double(), torch.zeros(2, dtype=torch.long))
    >>> [round(w, 6) for w in solve(problem).tolist()]
    [3.0, 0.0]
    """
    K, k = problem.K, problem.k
    used = masked(problem.group, torch.ones_like(k))
    slack = problem.slack
    corner = torch.cat([torch.zeros_like(k), torch.full_like(k, problem.upper), 1 + slack, slack - 1])
    limits = Inequalities(used / used.sum().clamp_min(1), corner)
    x = torch.ones_like(k)
    room = (corner - limits.rows(x)).clamp_min(1e-2)  # must start above zero
    dual = torch.ones_like(room) * k.abs().mean().clamp_min(1e-3)
    state = x, room, dual
    progress = state, _residuals(K, k, limits, state), x.clone(), torch.full_like(x[0], torch.inf)
    for _ in range(iterations):
        progress = advance(K, k, limits, progress)
    return problem.project(progress[2])


def _residuals(K: Tensor, k: Tensor, limits: Inequalities, state: State) -> State:
    """Kx - k + A'dual, Ax + room - b and room * dual: all zero at the optimum."""
    x, room, dual = state
    return K @ x - k + limits.columns(dual), limits.rows(x) + room - limits.bounds, room * dual


def _iterate(K: Tensor, limits: Inequalities, state: State, residuals: State) -> State:
    """One predictor-corrector step towards residuals of zero."""
    x, room, dual = state
    stationary, feasible, product = residuals
    solve_for = limits.solver(K, dual / room)

    def newton(complementary: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        dx = solve_for(-stationary, (dual * feasible - complementary) / room)
        droom = -feasible - limits.rows(dx)
        return dx, droom, (-complementary - dual * droom) / room

    _, droom, ddual = newton(product)
    gap = product.mean()
    reached = ((room + _longest_step(room, droom) * droom) * (dual + _longest_step(dual, ddual) * ddual)).mean()
    centre = (reached / gap) ** 3 * gap
    dx, droom, ddual = newton(product + droom * ddual - centre)
    primal, dual_step = 0.99 * _longest_step(room, droom), 0.99 * _longest_step(dual, ddual)
    return x + primal * dx, room + primal * droom, dual + dual_step * ddual


def _longest_step(value: Tensor, change: Tensor) -> Tensor:
    """The longest step, at most one, that keeps value + step * change from being negative."""
    falling = change < 0
    return torch.where(falling, -value / torch.where(falling, change, -1), 1).min().clamp_max(1)


Solver = Callable[[MMDProblem], Tensor]

LEAST = {"cvxopt": "1.3", "osqp": "1.0"}  # versions
# Without a fixed interval osqp adapts rho by the wall clock, so that equal runs would differ.
OPTIONS: dict[str, dict[str, Any]] = {
    "cvxopt": {},
    "osqp": {"eps_abs": 1e-5, "eps_rel": 1e-5, "max_iter": 20_000, "adaptive_rho_interval": 50},
}


def on_cpu(name: str) -> Solver:
    """The solver of that name in ``qpsolvers``; the problem is copied to the CPU and the weights back."""

    def solve(problem: MMDProblem) -> Tensor:
        weights = torch.from_numpy(_solve_with(name, problem)).to(problem.k)
        return problem.project(weights)  # removes violations of the constraints within the solver's tolerance

    return solve


SOLVERS: dict[str, Solver] = {"gpu": solve, "cvxopt": on_cpu("cvxopt"), "osqp": on_cpu("osqp")}


def resolve_solver(name: str) -> Solver:
    """The solver of that name; an error if it is unknown or its package is missing."""
    if not isinstance(name, str) or name not in SOLVERS:
        raise ValueError(f"unknown solver {name!r}: expected one of {', '.join(map(repr, SOLVERS))}")
    if name in LEAST:
        require("qpsolvers", "4.3", "qp")
        require(name, LEAST[name], "qp")
    return SOLVERS[name]


def _solve_with(name: str, problem: MMDProblem) -> np.ndarray:
    """min 1/2 w'Kw - k'w  s.t.  0 <= w <= upper,  |mean(w) - 1| <= slack, by ``qpsolvers`` in float64: (n,)."""
    import qpsolvers
    from scipy.sparse import csc_matrix

    parts = (problem.K, problem.k, masked(problem.group, torch.ones_like(problem.k)), problem.slack)
    K, k, used, slack = (x.double().cpu().numpy() for x in parts)
    if not used.any():
        return np.ones_like(k)
    mean = used[None] / used.sum()
    above, below = np.vstack([mean, -mean]), np.concatenate([1 + slack, slack - 1])
    P, G = (csc_matrix(K), csc_matrix(above)) if name == "osqp" else (K, above)
    program = qpsolvers.Problem(P, -k, G, below, lb=np.zeros_like(k), ub=np.full_like(k, problem.upper))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the status is checked below
        solution = qpsolvers.solve_problem(program, solver=name, **OPTIONS[name])
    if solution.x is None or not np.isfinite(solution.x).all():
        raise RuntimeError(f'{name} found no solution for this batch ({len(k)} samples): try solver="gpu"')
    if not solution.found:
        warnings.warn(f"{name} stopped before it converged; its last iterate is used", stacklevel=2)
    return np.asarray(solution.x, dtype=np.float64)
