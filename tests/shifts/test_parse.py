"""Shifts written as text."""

from __future__ import annotations

import pytest

from adiw.shifts import SHIFTS, ClassConditional, ClassPrior, Covariate, NoShift, Pair, Shift, Symmetric, parse

SPECS = {
    "none": NoShift(),
    "symmetric:0.4": Symmetric(0.4),
    "pair:0.3": Pair(0.3),
    "class-prior:0.5,100": ClassPrior(0.5, 100),
    "covariate:2.0": Covariate(2.0),
    "class-conditional:-1e-1": ClassConditional(-0.1),
}


def test_specs_are_the_table() -> None:
    assert {spec.partition(":")[0] for spec in SPECS} == SHIFTS.keys()


@pytest.mark.parametrize(("spec", "shift"), SPECS.items())
def test_parse(spec: str, shift: Shift) -> None:
    assert parse(spec) == shift
    assert parse(f" {spec}\n") == shift


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("symetric:0.4", "shift 'symetric': expected one of symmetric, "),
        ("class_prior:0.5,100", "shift 'class_prior': expected one of class-prior, "),
        ("", "shift '': expected one of "),
        ("symmetric", "expected 1 parameters, got 0; write symmetric:RATE"),
        ("symmetric:0.4,0.3", "expected 1 parameters, got 2; write symmetric:RATE"),
        ("class-prior:0.5", "expected 2 parameters, got 1; write class-prior:MU,RHO"),
        ("none:1", "expected 0 parameters, got 1; write none"),
        ("pair:a lot", "expected a number, got 'a lot'"),
        ("pair:", "expected a number, got ''"),
        ("pair:1.0", "expected 0 <= rate < 1"),
        ("covariate:inf", "expected a finite number"),
    ],
)
def test_errors(spec: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(spec)


def test_unknown_names_list_the_whole_table() -> None:
    with pytest.raises(ValueError, match="expected one of") as error:
        parse("nothing-like-it")
    assert all(name in str(error.value) for name in SHIFTS)
