"""The settings that the shared suite tests each divergence with, and the set that its parameters must stay in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
import torch

from adiw import estimate_weights
from adiw.divergences import DIVERGENCES, KL, MMD, Divergence, Squared, Wasserstein
from tests.oracles import reference as ref

WIDTH = 0.7  # about the spread of the test data, so that neighbouring kernels overlap without being equal
REACH = 1e-30  # with psi_bar below this, float32 cannot hold 1 / psi_bar times a sum: there is no feasible point
FAR = 1e3  # vectors this many widths long: their distances come from a float32 product, which cannot resolve a width

# How far params lie outside the feasible set of one group: (params, z_train, z_val) -> a number, zero inside.
Violation = Callable[[ref.Array, ref.Array, ref.Array], float]


@dataclass(frozen=True)
class Case:
    """A divergence with its settings.

    ``violation`` states the constraints in numpy; without it, a point is feasible when ``project`` does not move it.
    ``nearest`` is False for a ``project`` that is not the Euclidean projection, ``descends`` for an update whose
    small steps need not lower the objective; a comment beside the case says why.
    """

    divergence: Divergence
    violation: Violation | None = None
    nearest: bool = True
    descends: bool = True

    @property
    def dims(self) -> tuple[int, ...]:
        """The sizes of z to test: without vectors where the divergence refuses them."""
        try:
            estimate_weights(torch.zeros(2, 2), torch.zeros(2, 2), self.divergence)
        except ValueError as error:
            if "scalar" in str(error):
                return (1,)
            raise
        return (1, 2)


def mean_band(upper: float, slack: float | None) -> Violation:
    """0 <= w <= upper and |mean(w) - 1| <= slack; None for (sqrt(n) - 1) / sqrt(n)."""

    def violation(w: ref.Array, z_train: ref.Array, z_val: ref.Array) -> float:
        allowed = 1 - len(w) ** -0.5 if slack is None else slack
        return float(max(-w.min(), w.max() - upper, abs(w.mean() - 1) - allowed, 0.0))

    return violation


def unit_mass(width: float) -> Violation:
    """beta >= 0 and beta'psi_bar = 1, unless no training sample is near any centre."""

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

# A divergence without an entry is tested with its default settings: see ``cases_of``.
CASES: dict[str, list[Case]] = {
    "mmd": [
        Case(MMD(width=WIDTH, step_size=0.3, step="local"), mean_band(50.0, None)),
        Case(MMD(width=WIDTH, step_size=0.02, upper=1.5, slack=0.1), mean_band(1.5, 0.1)),
        Case(MMD(width=WIDTH, step_size=0.02), mean_band(50.0, None)),
    ],
    "kl": [
        # Rescaling keeps the proportions of beta, unlike the nearest point. After the plain gradient it also
        # turns the step: test_reference.py states what that step does instead of descending.
        Case(KL(width=WIDTH, step_size=0.1, update="rescale"), unit_mass(WIDTH), nearest=False, descends=False),
        Case(KL(width=WIDTH, step_size=0.1, update="optimum"), unit_mass(WIDTH), nearest=False),
        Case(KL(width=WIDTH, step_size=0.1, update="euclidean"), unit_mass(WIDTH)),
    ],
    "squared": [Case(Squared(width=WIDTH, step_size=0.1, penalty=0.01), non_negative)],
    "wasserstein": [
        Case(Wasserstein(critic="exact", step_size=0.05), mean_one),
        Case(Wasserstein(critic="network", step_size=0.05, pretrain=0, learning_rate=0.01), mean_one),
    ],
}


def cases_of(name: str) -> list[Case]:
    """The cases of a divergence of the table: those in ``CASES``, or its default settings."""
    return CASES.get(name) or [Case(default(DIVERGENCES[name]))]


def default(kind: type[Divergence]) -> Divergence:
    """The default settings, with a kernel width that suits the test data."""
    has_width = any(field.name == "width" for field in fields(kind))  # type: ignore[arg-type]
    return kind(**{"width": WIDTH}) if has_width else kind()
