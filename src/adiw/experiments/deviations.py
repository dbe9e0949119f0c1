"""Where a recipe differs from the paper's: every difference is named, and nothing is named that is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adiw.experiments.recipe import Recipe
from adiw.experiments.settings import SettingsError


def differences(base: Recipe, ours: Recipe) -> dict[tuple[str, str], tuple[Any, Any]]:
    """(setting, row) -> (the base's value, ours) for every setting that differs in a row, in whatever column."""
    found: dict[tuple[str, str], tuple[Any, Any]] = {}
    for old, new in zip(base.rows, ours.rows, strict=True):
        for column in base.columns:
            before = base.settings(old, column, 0).as_dict()
            after = ours.settings(new, column, 0).as_dict()
            changed = {(key, old.label): (before[key], after[key]) for key in before if before[key] != after[key]}
            found |= changed
    return found


def check_deviations(base: Recipe, ours: Recipe) -> None:
    """An error unless ``ours.deviations`` names every difference from ``base``, and nothing else."""
    found = differences(base, ours)
    named: set[tuple[str, str]] = set()
    for deviation in ours.deviations:
        labels = [row.label for row in base.rows] if deviation["rows"] == "all" else deviation["rows"]
        for label in labels:
            _check_named(deviation, label, found, base)
            named.add((deviation["setting"], label))
    missing = sorted(found.keys() - named)
    if missing:
        setting, label = missing[0]
        before, after = found[setting, label]
        raise SettingsError(
            f"{setting} of {label} is {before} in {base.name} and {after} here, and no [[deviation]] says so: "
            "add one with setting, rows, paper, ours and chosen"
        )


def _check_named(
    deviation: Mapping[str, Any], label: str, found: Mapping[tuple[str, str], tuple[Any, Any]], base: Recipe
) -> None:
    """A deviation must be there, with the value that it states; the paper's may be a remark ("not stated")."""
    setting = deviation["setting"]
    if label not in {row.label for row in base.rows}:
        raise SettingsError(
            f"the [[deviation]] of {setting} names the row {label!r}, which {base.name} does not have"
        )
    if (setting, label) not in found:
        raise SettingsError(
            f"the [[deviation]] of {setting} names {label}, whose {setting} is that of {base.name}: leave the row out"
        )
    before, after = found[setting, label]
    if deviation["ours"] != after:
        raise SettingsError(f"the [[deviation]] of {setting} says {deviation['ours']}, but {label} has {after}")
    if deviation["paper"] != before and not isinstance(deviation["paper"], str):
        raise SettingsError(
            f"the [[deviation]] of {setting} says that the paper has {deviation['paper']}, but {label} has {before} "
            f"in {base.name}"
        )
