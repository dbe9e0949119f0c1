"""The settings that the shared suite tests each divergence with, and the set that its parameters must stay in."""

from __future__ import annotations

import numpy as np

from adiw.divergences import (
    DIVERGENCES,
    KL,
    MMD,
    Energy,
    Hellinger,
    JensenShannon,
    Power,
    Relative,
    Sliced,
    Squared,
    Wasserstein,
)
from adiw.divergences.settings import Update
from adiw.testing.case import WIDTH, Case, Violation, default
from tests.oracles import reference as ref

REACH = 1e-30  # with psi_bar below this, float32 cannot hold 1 / psi_bar times a sum: there is no feasible point
FAR = 1e3  # vectors this many widths long: their distances come from a float32 product, which cannot resolve a width


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


UPDATES: tuple[Update, ...] = ("optimum", "euclidean")


def of_family(divergence: Power | JensenShannon) -> Case:
    """Clamping and rescaling keeps the proportions of beta, unlike the nearest point."""
    return Case(divergence, unit_mass(WIDTH), nearest=divergence.update == "euclidean")


mean_one = mean_band(upper=float("inf"), slack=0.0)

# A divergence without an entry is tested with its default settings: see ``cases_of``.
CASES: dict[str, list[Case]] = {
    "mmd": [
        Case(MMD(width=WIDTH, step_size=0.3, step="local"), mean_band(50.0, None)),
        Case(MMD(width=WIDTH, step_size=0.02, upper=1.5, slack=0.1, step="plain"), mean_band(1.5, 0.1)),
        Case(MMD(width=WIDTH, step_size=0.02, step="plain"), mean_band(50.0, None)),
        *(
            Case(MMD(width=WIDTH, step_size=0.02, step=step, kernel=kernel), mean_band(50.0, None))
            for kernel, step in (("laplace", "plain"), ("rational-quadratic", "local"), ("linear", "local"))
        ),
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
        Case(Wasserstein(critic="exact", scale=1.0, step_size=0.05), mean_one),
        Case(Wasserstein(critic="network", scale=1.0, step_size=0.05, pretrain=0, learning_rate=0.01), mean_one),
    ],
    "relative": [
        Case(Relative(WIDTH, 0.3, alpha=0.1), non_negative),
        Case(Relative(WIDTH, 0.3, alpha=0.2, penalty=0.01), non_negative),
    ],
    "pearson": [of_family(Power(WIDTH, 0.1, update, power)) for power in (1.0, 0.0) for update in UPDATES],
    "hellinger": [of_family(Hellinger(WIDTH, 0.1, update)) for update in UPDATES],
    "jensen-shannon": [of_family(JensenShannon(WIDTH, 0.1, update)) for update in UPDATES],
    "energy": [Case(Energy(0.05, scale=1.0), mean_one)],
    "sliced": [Case(Sliced(0.05, scale=1.0), mean_one), Case(Sliced(0.05, scale=1.0, directions=3), mean_one)],
}


def cases_of(name: str) -> list[Case]:
    """The cases of a divergence of the table: those in ``CASES``, or its default settings."""
    return CASES.get(name) or [Case(default(DIVERGENCES[name]))]
