"""Simulated shifts: pure functions of tensors and a generator, each with its true weights where known.

The table below is the whole list: a new shift is one file and one line.
"""

from __future__ import annotations

from collections.abc import Callable

from adiw.shifts.class_conditional import ClassConditional
from adiw.shifts.class_prior import ClassPrior
from adiw.shifts.covariate import Covariate
from adiw.shifts.indices import check_trusted, read_indices
from adiw.shifts.none import NoShift
from adiw.shifts.pair import Pair
from adiw.shifts.shifted import Shift, Shifted
from adiw.shifts.spec import parse_spec
from adiw.shifts.symmetric import Symmetric

__all__ = [
    "SHIFTS",
    "ClassConditional",
    "ClassPrior",
    "Covariate",
    "NoShift",
    "Pair",
    "Shift",
    "Shifted",
    "Symmetric",
    "check_trusted",
    "parse",
    "read_indices",
]

SHIFTS: dict[str, Callable[..., Shift]] = {
    "none": NoShift,
    "symmetric": Symmetric,
    "pair": Pair,
    "class-prior": ClassPrior,
    "covariate": Covariate,
    "class-conditional": ClassConditional,
}
"""The names that ``parse`` takes before the colon, and what makes each shift."""


def parse(spec: str) -> Shift:
    """The shift that a text names: ``"symmetric:0.4"``, ``"class-prior:0.5,100"``, ``"none"``.

    >>> parse("pair:0.3")
    Pair(rate=0.3)
    """
    return parse_spec(spec, SHIFTS)
