"""The runs of a recipe, or of a part of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from adiw.experiments.recipes import Entry, Recipe
from adiw.experiments.settings import Settings, override, unknown


@dataclass(frozen=True)
class Planned:
    """One run: its cell, trial and settings. Its folder is ``named``, or a digest of the settings."""

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
    """A part of a recipe; all of it by default.

    Attributes:
        methods: rows, by label or method.
        shifts: columns, by label or shift.
        trials: number of trials; None for the recipe's.
        changes: settings that override the recipe's in all runs, such as the epochs or the path of the data.
    """

    methods: tuple[str, ...] = ()
    shifts: tuple[str, ...] = ()
    trials: int | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)


def plan(recipe: Recipe, part: Part = Part()) -> list[Planned]:  # noqa: B008 - frozen
    """The runs of this part of the recipe, row by row: all trials of a cell come before those of the next."""
    rows = _chosen(recipe.rows, part.methods, "method", recipe.common)
    columns = _chosen(recipe.columns, part.shifts, "shift", recipe.common)
    changed = [Entry(row.label, override(row.settings, part.changes)) for row in rows]
    return [
        Planned(row.label, column.label, trial, recipe.settings(row, column, trial))
        for row in changed
        for column in columns
        for trial in range(recipe.trials if part.trials is None else part.trials)
    ]


def _chosen(
    entries: Sequence[Entry], wanted: Sequence[str], setting: str, common: Mapping[str, Any]
) -> Sequence[Entry]:
    """The entries whose label, or else whose value of ``setting``, is in ``wanted``; all entries if it is empty."""
    found: set[str] = set()
    for name in wanted:
        values = {entry.label: str({**common, **entry.settings}.get(setting, "")) for entry in entries}
        labels = {label for label in values if label.lower() == name.lower()}
        labels = labels or {label for label, value in values.items() if value.lower() == name.lower()}
        if not labels:
            raise unknown(setting, name, [entry.label for entry in entries])
        found |= labels
    return [entry for entry in entries if entry.label in found] if wanted else entries
