"""A recipe: the rows and columns of a table, the settings of each, and the differences from the paper's recipe."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from adiw.experiments.settings import Settings, SettingsError, override, resolve

DEVIATION = ("setting", "rows", "paper", "ours", "chosen")


@dataclass(frozen=True)
class Entry:
    """A row or a column: its label, and the settings that it adds."""

    label: str
    settings: dict[str, Any]


@dataclass(frozen=True)
class Recipe:
    """What a sweep runs: every row in every column, ``trials`` times. Trial k has the seed k.

    Attributes:
        measures: what the tables show: "accuracy", "top5".
        common: settings of all runs. A column's settings override them, and a row's settings override both.
        deviations: every difference from the paper's recipe: setting, rows, paper, ours, chosen.
        paper: measure -> row -> one figure per column. An accuracy is [mean, std], "seconds" (per epoch) is a number;
            None where the paper has no figure.
    """

    name: str
    title: str
    about: str
    trials: int
    measures: tuple[str, ...]
    common: dict[str, Any]
    columns: tuple[Entry, ...]
    rows: tuple[Entry, ...]
    deviations: tuple[dict[str, Any], ...]
    paper: dict[str, dict[str, list[Any]]]

    def settings(self, row: Entry, column: Entry, trial: int) -> Settings:
        """The settings of one run."""
        return resolve({**override(override(self.common, column.settings), row.settings), "seed": trial})

    def as_dict(self) -> dict[str, Any]:
        """The recipe as plain values for recipe.json; ``common`` contains the number of epochs, None without one."""
        common = {**self.common, "epochs": resolve(self.common).epochs}
        lists = {key: list(getattr(self, key)) for key in ("measures", "deviations")}
        entries = {key: [asdict(entry) for entry in getattr(self, key)] for key in ("columns", "rows")}
        return {**asdict(self), **lists, **entries, "common": common}


def check_deviations(base: Recipe, ours: Recipe) -> None:
    """Raise unless ``ours.deviations`` states every difference from ``base``, and nothing else."""
    differences = _differences(base, ours)
    labels, stated = [row.label for row in base.rows], set()
    for deviation in ours.deviations:
        setting = deviation["setting"]
        where = f"the [[deviation]] of {setting}"
        for label in labels if deviation["rows"] == "all" else deviation["rows"]:
            stated.add((setting, label))
            if label not in labels:
                raise SettingsError(f"{where} names the row {label!r}, which {base.name} does not have")
            if (setting, label) not in differences:
                raise SettingsError(f"{where} names {label}, whose {setting} is the same in {base.name}: remove it")
            before, after = differences[setting, label]
            if deviation["ours"] != after:
                raise SettingsError(f"{where} states {deviation['ours']}, but {label} has {after}")
            # The paper's value may be a text, such as "not stated".
            if deviation["paper"] != before and not isinstance(deviation["paper"], str):
                raise SettingsError(
                    f"{where} states {deviation['paper']} for the paper, but {label} has {before} in {base.name}"
                )
    for setting, label in sorted(differences.keys() - stated):
        before, after = differences[setting, label]
        raise SettingsError(
            f"{setting} of {label} is {before} in {base.name} and {after} here: add a [[deviation]] with "
            f"{', '.join(DEVIATION)}"
        )


def _differences(base: Recipe, ours: Recipe) -> dict[tuple[str, str], tuple[Any, Any]]:
    """(setting, row) -> (value in base, value in ours) for every setting that differs in any column.

    Rows that ``ours`` adds come after those of ``base``.
    """
    found: dict[tuple[str, str], tuple[Any, Any]] = {}
    for old, new in zip(base.rows, ours.rows, strict=False):
        for column in base.columns:
            before, after = (one.settings(row, column, 0).as_dict() for one, row in ((base, old), (ours, new)))
            found |= {(key, old.label): (before[key], after[key]) for key in before if before[key] != after[key]}
    return found
