"""The settings under which every divergence of the table is tested, and the set that its parameters must stay in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from adiw.divergences import KL, MMD, Divergence, Squared, Wasserstein
from tests.oracles import reference as ref

WIDTH = 0.7  # about the spread of the test data, so that neighbours overlap but do not coincide
REACH = 1e-30  # with psi_bar below this, float32 cannot hold 1 / psi_bar times a sum: there is no feasible point
FAR = 1e3  # vectors this many widths long: their distances come from a float32 product, which cannot resolve a width

# How far params lie outside the feasible set of one group: (params, z_train, z_val) -> a number, zero inside.
Violation = Callable[[ref.Array, ref.Array, ref.Array], float]


@dataclass(frozen=True)
class Case:
    """A divergence with its settings.

    ``violation`` restates the constraints in numpy. ``dims`` are the sizes of z it accepts. ``descends`` is False
    for an update whose small steps do not always lower the objective (say why beside the case).
    """

    divergence: Divergence
    violation: Violation
    dims: tuple[int, ...] = (1, 2)
    descends: bool = True


def mean_band(upper: float, slack: float | None) -> Violation:
    """0 <= w <= upper and |mean(w) - 1| <= slack; None for (sqrt(n) - 1) / sqrt(n)."""

    def violation(w: ref.Array, z_train: ref.Array, z_val: ref.Array) -> float:
        allowed = 1 - len(w) ** -0.5 if slack is None else slack
        return float(max(-w.min(), w.max() - upper, abs(w.mean() - 1) - allowed, 0.0))

    return violation


def unit_mass(width: float) -> Violation:
    """beta >= 0 and beta'psi_bar = 1, unless no training sample is within reach of any centre."""

    def violation(beta: ref.Array, z_train: ref.Array, z_val: ref.Array) -> float:
        psi_bar = ref.psi_bar(z_train, z_val, width)
        unresolved = z_val.shape[1] > 1 and max(abs(z_train).max(), abs(z_val).max()) > FAR * width
        if psi_bar.max() < REACH or unresolved:
            return float(max(-beta.min(), 0.0))
        return float(max(-beta.min(), abs(psi_bar @ beta - 1)))

    return violation


def non_negative(beta: ref.Array, z_train: ref.Array, z_val: ref.Array) -> float:
    return float(max(-np.min(beta), 0.0))


mean_one = mean_band(upper=float("inf"), slack=0.0)

CASES: dict[str, list[Case]] = {
    "mmd": [
        Case(MMD(width=WIDTH, step_size=0.3, step="local"), mean_band(50.0, None)),
        Case(MMD(width=WIDTH, step_size=0.02, upper=1.5, slack=0.1), mean_band(1.5, 0.1)),
        Case(MMD(width=WIDTH, step_size=0.02), mean_band(50.0, None)),
    ],
    "kl": [
        # The plain gradient followed by rescaling turns the step: see test_reference.py for what it does instead.
        Case(KL(width=WIDTH, step_size=0.1, update="rescale"), unit_mass(WIDTH), descends=False),
        Case(KL(width=WIDTH, step_size=0.1, update="optimum"), unit_mass(WIDTH)),
        Case(KL(width=WIDTH, step_size=0.1, update="euclidean"), unit_mass(WIDTH)),
    ],
    "squared": [Case(Squared(width=WIDTH, step_size=0.1, penalty=0.01), non_negative)],
    "wasserstein": [
        Case(Wasserstein(critic="exact", step_size=0.05), mean_one, dims=(1,)),
        Case(Wasserstein(critic="network", step_size=0.05, pretrain=0, learning_rate=0.01), mean_one),
    ],
}
