"""Kernel mean matching solved to the optimum on the model's device, without host synchronisation.

A primal-dual interior-point method (Mehrotra's predictor and corrector). Kernel matrices are all but singular, which
stalls projected gradients. Newton's method does not feel that: the number of iterations hardly depends on the
problem, so a fixed one serves all.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from adiw.divergences import MMDProblem
from adiw.groups import taking_part

ITERATIONS = 20  # the tests compare the optimum with cvxopt's


@dataclass(frozen=True)
class Inequalities:
    """A x <= b for the rows -x <= 0, x <= upper, mean(x) <= high, -mean(x) <= -low; never formed as a matrix."""

    average: Tensor  # (n,): average'x is the mean over the samples that take part
    bounds: Tensor  # b, (2n + 2,)

    def rows(self, x: Tensor) -> Tensor:
        """A x, (2n + 2,)."""
        mean = (self.average @ x)[None]
        return torch.cat([-x, x, mean, -mean])

    def columns(self, dual: Tensor) -> Tensor:
        """A'dual, (n,)."""
        n = len(self.average)
        return dual[n : 2 * n] - dual[:n] + self.average * (dual[-2] - dual[-1])

    def weighted_square(self, scale: Tensor) -> Tensor:
        """A' diag(scale) A, (n, n)."""
        n = len(self.average)
        return torch.diag(scale[:n] + scale[n : 2 * n]) + (scale[-2] + scale[-1]) * self.average.outer(self.average)


def solve(problem: MMDProblem, iterations: int = ITERATIONS) -> Tensor:
    """argmin_w 1/2 w'Kw - k'w  subject to  0 <= w <= upper,  |mean(w) - 1| <= slack.

    The problem must have one group and be in float64; weights of samples outside the group mean nothing.

    >>> K, k = torch.eye(2).double(), torch.tensor([3.0, -1.0]).double()
    >>> problem = MMDProblem(K, k, 50.0, torch.tensor([0.5]).double(), torch.zeros(2, dtype=torch.long))
    >>> [round(w, 6) for w in solve(problem).tolist()]
    [3.0, 0.0]
    """
    K, k = problem.K, problem.k
    used = taking_part(problem.group).to(k.dtype)
    slack = problem.slack
    corner = torch.cat([torch.zeros_like(k), torch.full_like(k, problem.upper), 1 + slack, slack - 1])
    limits = Inequalities(used / used.sum().clamp_min(1), corner)
    x = torch.ones_like(k)
    room = (corner - limits.rows(x)).clamp_min(1e-2)  # s = b - A x, kept above zero
    dual = torch.ones_like(room) * k.abs().mean().clamp_min(1e-3)
    state = (x, room, dual)
    for _ in range(iterations):
        state = _iterate(K, k, limits, state)
    return problem.project(state[0])


def _iterate(
    K: Tensor, k: Tensor, limits: Inequalities, state: tuple[Tensor, Tensor, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """One predictor-corrector step on Kx - k + A'dual = 0, Ax + room = b, room * dual = 0."""
    x, room, dual = state
    stationary = K @ x - k + limits.columns(dual)
    feasible = limits.rows(x) + room - limits.bounds
    factor, info = torch.linalg.cholesky_ex(K + limits.weighted_square(dual / room))

    def newton(complementary: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        right = -stationary - limits.columns((dual * feasible - complementary) / room)
        dx = torch.cholesky_solve(right[:, None], factor)[:, 0]
        droom = -feasible - limits.rows(dx)
        return dx, droom, (-complementary - dual * droom) / room

    _, droom, ddual = newton(room * dual)
    gap = (room * dual).mean()
    reached = ((room + _longest(room, droom) * droom) * (dual + _longest(dual, ddual) * ddual)).mean()
    centre = (reached / gap) ** 3 * gap
    dx, droom, ddual = newton(room * dual + droom * ddual - centre)
    primal, dual_step = 0.99 * _longest(room, droom), 0.99 * _longest(dual, ddual)
    moved = (x + primal * dx, room + primal * droom, dual + dual_step * ddual)
    # Past the optimum the matrix may lose its last digits: stay where we are then.
    good = (info == 0) & torch.stack([part.isfinite().all() for part in moved]).all()
    x, room, dual = (torch.where(good, new, old) for new, old in zip(moved, state, strict=True))
    return x, room, dual


def _longest(value: Tensor, change: Tensor) -> Tensor:
    """The longest step, at most one, that keeps value + step * change from being negative."""
    falling = change < 0
    return torch.where(falling, -value / torch.where(falling, change, -1), 1).min().clamp_max(1)
