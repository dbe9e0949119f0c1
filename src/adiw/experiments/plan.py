"""Which runs a recipe, or a part of it, asks for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from adiw.experiments.recipe import Entry, Recipe
from adiw.experiments.settings import Settings, unknown


@dataclass(frozen=True)
class Planned:
    """One run: its cell, its trial, its settings. Its folder is named by a digest of them, unless it has a name."""

    row: str
    column: str
    trial: int
    settings: Settings
    named: str | None = None

    @property
    def folder(self) -> str:
        text = json.dumps(self.settings.as_dict(), sort_keys=True)
        return self.named or f"runs/{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    @property
    def name(self) -> str:
        return f"{self.row}, {self.column}, trial {self.trial}"


@dataclass(frozen=True)
class Part:
    """Which part of a recipe to run; empty for all of it.

    Attributes:
        methods: rows, by label or method; shifts: columns, by label or shift.
        trials: how many, None for the recipe's.
        changes: settings of all runs that go over the recipe's, such as their epochs or the path of the data.
    """

    methods: tuple[str, ...] = ()
    shifts: tuple[str, ...] = ()
    trials: int | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)


def plan(recipe: Recipe, part: Part = Part()) -> list[Planned]:  # noqa: B008 - frozen
    """The runs of this part of the recipe, row by row: all trials of a cell come before those of the next."""
    rows = _chosen(recipe.rows, part.methods, "method", recipe.common)
    columns = _chosen(recipe.columns, part.shifts, "shift", recipe.common)
    changed = [Entry(row.label, {**row.settings, **part.changes}) for row in rows]
    return [
        Planned(row.label, column.label, trial, recipe.settings(row, column, trial))
        for row in changed
        for column in columns
        for trial in range(recipe.trials if part.trials is None else part.trials)
    ]


def _chosen(
    entries: Sequence[Entry], wanted: Sequence[str], setting: str, common: Mapping[str, Any]
) -> Sequence[Entry]:
    """The rows or columns that are wanted, each by its label or else by the value of ``setting``; all for none."""
    found: set[str] = set()
    for name in wanted:
        values = {entry.label: str({**common, **entry.settings}.get(setting, "")) for entry in entries}
        labels = {label for label in values if label.lower() == name.lower()}
        labels = labels or {label for label, value in values.items() if value.lower() == name.lower()}
        if not labels:
            raise unknown(setting, name, [entry.label for entry in entries])
        found |= labels
    return [entry for entry in entries if entry.label in found] if wanted else entries
