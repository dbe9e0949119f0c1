"""Recipes with a base state each setting that differs from the paper's recipe as a deviation, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from adiw.experiments.recipes import Recipe, load


def differences(base: Recipe, ours: Recipe) -> dict[tuple[str, str], tuple[Any, Any]]:
    """(setting, row) -> (value in base, value in ours). Rows that ``ours`` adds come after those of ``base``."""
    found: dict[tuple[str, str], tuple[Any, Any]] = {}
    for old, new in zip(base.rows, ours.rows, strict=False):
        for column in base.columns:
            before, after = (one.settings(row, column, 0).as_dict() for one, row in ((base, old), (ours, new)))
            found |= {(key, old.label): (before[key], after[key]) for key in before if before[key] != after[key]}
    return found


def stated(base: Recipe, ours: Recipe) -> dict[tuple[str, str], tuple[Any, Any]]:
    """The same from the deviations of ``ours``."""
    labels = [row.label for row in base.rows]
    return {
        (each["setting"], label): (each["paper"], each["ours"])
        for each in ours.deviations
        for label in (labels if each["rows"] == "all" else each["rows"])
    }


def check(base: Recipe, ours: Recipe) -> None:
    found, told = differences(base, ours), stated(base, ours)
    assert found.keys() == told.keys()
    for key, (before, after) in found.items():
        assert told[key][1] == after, key
        assert told[key][0] == before or isinstance(told[key][0], str), key  # a text such as "not stated"


@pytest.mark.parametrize("name", ["fmnist-noise", "fmnist-prior", "cifar10-noise"])
def test_every_difference_from_the_papers_recipe_is_stated(name: str) -> None:
    check(load(name), load(f"{name}-ours"))


@pytest.mark.parametrize("change", [{"rows": ["Uniform"]}, {"ours": 7}, {"setting": "seed"}])
def test_a_wrong_statement_is_detected(change: dict[str, Any]) -> None:
    ours = load("fmnist-noise-ours")
    first, *rest = ours.deviations
    with pytest.raises(AssertionError):
        check(load("fmnist-noise"), replace(ours, deviations=(first | change, *rest)))
