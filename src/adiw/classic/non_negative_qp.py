"""min_x 1/2 x'Ax - c'x subject to x >= 0, exactly, by the active-set method of Lawson and Hanson."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
MANY = 30  # a start with more positive coordinates costs more time than it saves
RIDGE = 1e-13  # keeps the small systems solvable: features of neighbouring centres are nearly equal


def solve(A: Array, c: Array, tolerance: float = 1e-10, start: Array | None = None) -> Array:
    """The minimiser for a positive semi-definite A (b, b) and c (b,): (b,), mostly zeros.

    The positive coordinates solve a small linear system. In each iteration the coordinate along which the objective
    falls fastest is added to them, and those that would become negative are set to zero. The objective is within
    tolerance * max|c| * sum(x) of the optimum. The first positive coordinates are those of ``start``, a nearby point.

    >>> solve(np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([1.0, -1.0]))
    array([0.5, 0. ])
    """
    unit = 1 / np.sqrt(np.maximum(A.diagonal(), np.finfo(float).tiny))  # scales the diagonal of A to one
    A, c = A * unit * unit[:, None], c * unit
    x, inside = np.zeros(len(c)), np.zeros(len(c), dtype=bool)
    if start is not None and 0 < (start > 0).sum() <= MANY:
        inside = start > 0
        x = _solve_inside(A, c, start / unit, inside)
    barred = np.zeros(len(c), dtype=bool)  # added before, but immediately set to zero by rounding
    for _ in range(10 * len(c)):
        ascent = np.where(inside | barred, -np.inf, c - A @ x)
        enter = int(ascent.argmax())
        if ascent[enter] <= tolerance * np.abs(c).max():
            break
        inside[enter] = True
        x = _solve_inside(A, c, x, inside)
        barred[enter] = not inside[enter]
    return x * unit


def _solve_inside(A: Array, c: Array, x: Array, inside: NDArray[np.bool_]) -> Array:
    """The minimiser over the coordinates ``inside``; removes those that would become negative from it, in place."""
    while inside.any():
        at = np.flatnonzero(inside)
        system = A[np.ix_(at, at)]
        system.flat[:: len(at) + 1] += RIDGE
        target = np.linalg.solve(system, c[at])
        if target.min() > 0:
            new = np.zeros_like(x)
            new[at] = target
            return new
        reach = np.full(len(at), np.inf)  # the share of the step at which each negative coordinate reaches zero
        negative = target <= 0
        reach[negative] = x[at[negative]] / np.maximum(x[at[negative]] - target[negative], np.finfo(float).tiny)
        leaves = reach <= reach.min()
        moved = x[at] + reach.min() * (target - x[at])
        x = np.zeros_like(x)
        x[at[~leaves]] = np.maximum(moved[~leaves], 0)
        inside[at[leaves]] = False
    return np.zeros_like(x)
