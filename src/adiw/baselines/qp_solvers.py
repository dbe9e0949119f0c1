"""The solvers of DIW's quadratic program by name, each (problem) -> weights (n,)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from adiw.baselines import interior_point
from adiw.divergences import MMDProblem
from adiw.matching.groups import masked
from adiw.versions import require

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


SOLVERS: dict[str, Solver] = {"gpu": interior_point.solve, "cvxopt": on_cpu("cvxopt"), "osqp": on_cpu("osqp")}


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
