"""Simulated shifts: pure functions of tensors and a generator, each with its true weights where they are known.

A new shift is a class that has ``apply`` (see ``Shift``) in a file of this folder, and one line in the table below.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from difflib import SequenceMatcher

from adiw.shifts.biased_sampling import ClassConditional, Covariate
from adiw.shifts.class_prior import ClassPrior
from adiw.shifts.label_noise import Pair, Symmetric
from adiw.shifts.none import NoShift
from adiw.shifts.shift import Shift, Shifted
from adiw.shifts.trusted import check_trusted, read_indices

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
"""The names that ``parse`` accepts before the colon, and the class of each shift."""


def parse(spec: str) -> Shift:
    """The shift that a text describes: ``name`` or ``name:number,number``.

    >>> parse("pair:0.3"), parse("class-prior:0.5,100")
    (Pair(rate=0.3), ClassPrior(mu=0.5, rho=100.0))
    >>> parse("pear:0.4")
    Traceback (most recent call last):
    ValueError: shift 'pear': expected one of pair, symmetric, covariate, class-prior, none, class-conditional
    """
    if not isinstance(spec, str):
        raise TypeError(f"shift: expected a text such as 'symmetric:0.4', got {spec!r}")
    name, colon, text = spec.strip().partition(":")
    if name not in SHIFTS:
        nearest = sorted(SHIFTS, key=lambda known: -SequenceMatcher(None, name, known).ratio())
        raise ValueError(f"shift {name!r}: expected one of {', '.join(nearest)}")
    parameters = list(inspect.signature(SHIFTS[name]).parameters)
    values = text.split(",") if colon else []
    if len(values) != len(parameters):
        form = f"{name}:{','.join(parameters).upper()}" if parameters else name
        raise ValueError(f"shift {name!r}: expected {len(parameters)} parameters, got {len(values)}; write {form}")
    return SHIFTS[name](*(_number(spec, value) for value in values))


def _number(spec: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"shift {spec!r}: expected a number, got {value!r}; write for example 0.4") from None
