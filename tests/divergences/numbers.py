"""Extreme numbers that a network may produce, and every divergence to test on them."""

from __future__ import annotations

from dataclasses import fields, replace

from hypothesis import settings
from hypothesis import strategies as st

from adiw.testing.batches import INF, NAN
from tests.divergences.cases import Case, cases_of, non_negative

# Denormal, tiny, the largest half, huge, the largest float, nan and infinities; below, ordinary ones with ties.
EXTREME = [0.0, -0.0, 1e-45, 1e-30, -1e-30, 65504.0, 1e30, -1e30, 3e38, -3e38, NAN, INF, -INF]
number = st.one_of(st.sampled_from(EXTREME), st.sampled_from([0.1, 0.2, 2.5]), st.floats(-10, 10, width=32))
hostile = settings(deadline=None, derandomize=True, max_examples=40)


def variants(name: str) -> list[tuple[Case, int]]:
    """Every case of a divergence in every dimension, also with a width (or unit) that follows the data."""
    cases = [variant for case in cases_of(name) for variant in (case, *automatic(case))]
    return [(case, dim) for case in cases for dim in case.dims]


def automatic(case: Case) -> list[Case]:
    """Coefficients are then only checked not to be negative: their constraint needs a known width."""
    names = {field.name for field in fields(case.divergence)} & {"width", "scale"}  # type: ignore[arg-type]
    violation = case.violation if case.divergence.side == "train" else non_negative
    automatics = [replace(case.divergence, **{name: "auto"}) for name in names]  # type: ignore[type-var]
    return [replace(case, divergence=divergence, violation=violation) for divergence in automatics]
