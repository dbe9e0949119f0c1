"""A recipe: the rows and columns of a table of the paper, the settings of each, and the paper's own figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adiw.experiments.settings import Settings, resolve

KINDS = ("runs", "profile")


@dataclass(frozen=True)
class Entry:
    """A row or a column: its label, and the settings that it adds."""

    label: str
    settings: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        return {"label": self.label, "settings": self.settings}


@dataclass(frozen=True)
class Recipe:
    """What a sweep runs: every row in every column, ``trials`` times; trial k has the seed k.

    Attributes:
        kind: "runs", or "profile" for the stages of a step.
        measures: what its tables show: "accuracy", "top5".
        common: settings of all runs; those of a column go over them, and those of a row over both.
        deviations: where it differs from the paper's recipe: setting, rows, paper, ours, chosen.
        paper: measure -> row -> one figure per column: [mean, std] or None for accuracies, a number or None for
            "seconds" (per epoch). For a profile: "cpu" and "cuda" -> row -> one [seconds, percent] per stage.
        stages, epochs_profiled: of a profile; the last stage is the total.
    """

    name: str
    title: str
    about: str
    kind: str
    trials: int
    measures: tuple[str, ...]
    common: dict[str, Any]
    columns: tuple[Entry, ...]
    rows: tuple[Entry, ...]
    deviations: tuple[dict[str, Any], ...]
    paper: dict[str, dict[str, list[Any]]]
    stages: tuple[str, ...] = ()
    epochs_profiled: tuple[int, ...] = ()

    def settings(self, row: Entry, column: Entry, trial: int) -> Settings:
        """The settings of one run."""
        return resolve({**self.common, **column.settings, **row.settings, "seed": trial})

    def as_dict(self) -> dict[str, Any]:
        """The recipe as plain values, for recipe.json; ``common`` always says how many epochs."""
        epochs = resolve(self.common).epochs
        found: dict[str, Any] = {
            "name": self.name,
            "title": self.title,
            "about": self.about,
            "kind": self.kind,
            "trials": self.trials,
            "measures": list(self.measures),
            "common": {**self.common, "epochs": epochs},
            "columns": [column.as_dict() for column in self.columns],
            "rows": [row.as_dict() for row in self.rows],
            "deviations": list(self.deviations),
            "paper": self.paper,
        }
        if self.kind == "profile":
            found |= {"stages": list(self.stages), "epochs_profiled": list(self.epochs_profiled)}
        return found
