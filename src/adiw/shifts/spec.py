"""A shift written as text: ``name`` or ``name:number,number``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from difflib import SequenceMatcher

from adiw.shifts.shifted import Shift

__all__ = ["parse_spec"]


def parse_spec(spec: str, table: Mapping[str, Callable[..., Shift]]) -> Shift:
    """Build the shift that ``spec`` names in ``table``.

    >>> from adiw.shifts import SHIFTS
    >>> parse_spec("class-prior:0.5,100", SHIFTS)
    ClassPrior(mu=0.5, rho=100.0)
    >>> parse_spec("pear:0.4", SHIFTS)
    Traceback (most recent call last):
    ValueError: shift 'pear': expected one of pair, symmetric, covariate, class-prior, none, class-conditional
    """
    if not isinstance(spec, str):
        raise TypeError(f"shift: expected a text such as 'symmetric:0.4', came {spec!r}")
    name, colon, text = spec.strip().partition(":")
    if name not in table:
        nearest = sorted(table, key=lambda known: -SequenceMatcher(None, name, known).ratio())
        raise ValueError(f"shift {name!r}: expected one of {', '.join(nearest)}")
    parameters = list(inspect.signature(table[name]).parameters)
    values = text.split(",") if colon else []
    if len(values) != len(parameters):
        form = f"{name}:{','.join(parameters).upper()}" if parameters else name
        raise ValueError(f"shift {name!r}: expected {len(parameters)} parameters, came {len(values)}; write {form}")
    return table[name](*(_number(spec, value) for value in values))


def _number(spec: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"shift {spec!r}: expected a number, came {value!r}; write for example 0.4") from None
