"""Recipes: the tables that ``adiw sweep`` runs, one TOML file each in ``recipe_files``, and the runs that they plan.

A recipe states ``title``, ``about``, ``trials``, ``measures``, the ``[settings]`` of all runs, ``[[column]]`` and
``[[row]]`` tables with settings of their own, and the paper's figures. A recipe with ``base`` changes one of the
paper's recipes: ``[settings]`` for all rows, ``[rows.LABEL]`` for one row, ``[[row]]`` for a new one,
and a ``[[deviation]]`` for a setting that differs, which the tables show.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from adiw.experiments.methods import find
from adiw.experiments.settings import Settings, SettingsError, override, resolve, unknown
from adiw.shifts import parse

MEASURES = ("accuracy", "top5")
_KEYS = ("title", "about", "trials", "measures", "settings", "column", "row", "paper")
_KEYS_WITH_BASE = ("base", "title", "about", "trials", "settings", "rows", "row", "deviation")
_FIGURE = re.compile(r"(\d+(?:\.\d+)?) \((\d+(?:\.\d+)?)\)")
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
        return resolve({**override(override(self.common, column.settings), row.settings), "seed": trial})

    def as_dict(self) -> dict[str, Any]:
        """The recipe as plain values for recipe.json; ``common`` contains the number of epochs, None without one."""
        common = {**self.common, "epochs": resolve(self.common).epochs}
        plain: dict[str, Any] = json.loads(json.dumps({**asdict(self), "common": common}))
        return plain


def names() -> list[str]:
    """The names of the recipes that come with the library, sorted."""
    return sorted(file.name.removesuffix(".toml") for file in _folder().iterdir() if file.name.endswith(".toml"))


def load(name: str) -> Recipe:
    """The recipe of this name, or in this file if the name ends in .toml."""
    if name.endswith(".toml"):
        return load_file(Path(name))
    if name not in names():
        raise unknown("recipe", name, names())
    return load_file(_folder() / f"{name}.toml")


def load_file(file: Path | Traversable) -> Recipe:
    """The recipe in a TOML file, with the settings of all its runs checked. Errors name the file."""
    try:
        given = tomllib.loads(file.read_text(encoding="utf-8"))
        given, deviations = _merged_with_base(given) if "base" in given else (given, ())
        recipe = _recipe(file.name.removesuffix(".toml"), given, deviations)
        _check_runs(recipe)
    except (OSError, ValueError) as error:
        raise SettingsError(f"{file.name}: {error}") from error
    return recipe


def _folder() -> Traversable:
    return files("adiw.experiments") / "recipe_files"


def _recipe(name: str, given: dict[str, Any], deviations: tuple[dict[str, Any], ...]) -> Recipe:
    check_keys("the recipe", given, _KEYS)
    rows, columns = entries(given, "row"), entries(given, "column")
    return Recipe(
        name,
        title=text_of(given, "title"),
        about=text_of(given, "about"),
        trials=given.get("trials", 1),
        measures=tuple(given.get("measures", MEASURES[:1])),
        common=table_of(given, "settings"),
        columns=columns,
        rows=rows,
        deviations=deviations,
        paper=paper_figures(given, [row.label for row in rows], len(columns), (*MEASURES, "seconds")),
    )


def _merged_with_base(given: dict[str, Any]) -> tuple[dict[str, Any], tuple[dict[str, Any], ...]]:
    """(the content of the base with the changes, the deviations). A base is a recipe of the paper, without a base."""
    check_keys("a recipe with a base", given, _KEYS_WITH_BASE)
    name, changes, deviations = text_of(given, "base"), table_of(given, "rows"), given.get("deviation", [])
    if name not in names():
        raise unknown("base", name, names())
    base = tomllib.loads((_folder() / f"{name}.toml").read_text(encoding="utf-8"))
    if "base" in base:
        raise SettingsError(f"base {name} has a base itself: use that one")
    labels = [row["label"] for row in base["row"]]
    for label in changes:
        if label not in labels:
            raise unknown("row", label, labels)
    for deviation in deviations:
        _check_deviation(deviation)
    rows = [row | changes.get(row["label"], {}) for row in base["row"]]
    kept = {key: given[key] for key in ("title", "about", "trials") if key in given}
    merged = {key: value for key, value in base.items() if key not in ("title", "about")} | kept
    merged["settings"] = table_of(base, "settings") | table_of(given, "settings")
    return {**merged, "row": rows + given.get("row", [])}, tuple(
        {**deviation, "chosen": text_of(deviation, "chosen")} for deviation in deviations
    )


def _check_runs(recipe: Recipe) -> None:
    """Raise unless every run of the recipe has valid settings."""
    if type(recipe.trials) is not int or recipe.trials < 1:
        raise SettingsError(f"trials must be a whole number from 1, got {recipe.trials!r}")
    check_keys("measures", recipe.measures, MEASURES)
    if any("seed" in given for given in (recipe.common, *(e.settings for e in (*recipe.rows, *recipe.columns)))):
        raise SettingsError("a recipe does not set the seed: trial k has the seed k")
    for row in recipe.rows:
        for column in recipe.columns:
            try:
                settings = recipe.settings(row, column, 0)
                find(settings.method)
                parse(settings.shift)
            except (TypeError, AttributeError) as error:  # a text instead of a number, or a number instead of a text
                raise SettingsError(f"a setting of {row.label} has the wrong type ({error})") from error


def _check_deviation(deviation: Mapping[str, Any]) -> None:
    check_keys("deviation", deviation, DEVIATION)
    setting = text_of(deviation, "setting")
    for key in DEVIATION:
        if key not in deviation:
            raise SettingsError(f"[[deviation]] of {setting}: {key} is missing")
    if deviation["rows"] != "all" and not isinstance(deviation["rows"], list):
        raise SettingsError(f'[[deviation]] of {setting}: rows must be "all" or a list, got {deviation["rows"]!r}')


def check_keys(where: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Raise for the first unknown key, and list the known ones."""
    for key in given:
        if key not in known:
            raise unknown(f"key of {where}", str(key), known)


def text_of(given: Mapping[str, Any], key: str) -> str:
    """A required text, joined into one line."""
    value = given.get(key)
    if not isinstance(value, str) or not value.strip():
        raise SettingsError(f"{key}: expected a text, got {value!r}")
    return " ".join(value.split())


def table_of(given: Mapping[str, Any], key: str) -> dict[str, Any]:
    """An optional table; empty if it is absent."""
    value = given.get(key, {})
    if not isinstance(value, dict):
        raise SettingsError(f"{key}: expected a table, written [{key}], got {value!r}")
    return value


def entries(given: Mapping[str, Any], key: str) -> tuple[Entry, ...]:
    """The [[row]] or [[column]] tables: a label each, and settings."""
    found = [
        Entry(text_of(table, "label"), {name: value for name, value in table.items() if name != "label"})
        for table in given.get(key, [])
    ]
    labels = [entry.label for entry in found]
    if not labels or len(set(labels)) < len(labels):
        raise SettingsError(f"expected [[{key}]] tables with different labels, got {labels}")
    return tuple(found)


def paper_figures(
    given: Mapping[str, Any], rows: Sequence[str], count: int, measures: Sequence[str]
) -> dict[str, dict[str, list[Any]]]:
    """Measure -> row -> ``count`` figures of the paper; None where the paper has none."""
    tables = table_of(given, "paper")
    check_keys("paper", tables, measures)
    for measure, figures in tables.items():
        check_keys(f"paper.{measure}", figures, rows)
        for label, values in figures.items():
            if len(values) != count:
                raise SettingsError(f"paper.{measure} of {label}: expected {count} figures, got {len(values)}")
    return {
        measure: {row: [_figure(value, measure) for value in figures.get(row, ["-"] * count)] for row in rows}
        for measure, figures in tables.items()
    }


def _figure(value: Any, measure: str) -> Any:
    """
    >>> _figure("88.73 (0.66)", "accuracy"), _figure(29.63, "seconds"), _figure("-", "accuracy")
    ([88.73, 0.66], 29.63, None)
    """
    if value == "-":
        return None
    if measure == "seconds":
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
            return float(value)
        raise SettingsError(f'paper.seconds: expected a number, or "-" for none, got {value!r}')
    match = _FIGURE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise SettingsError(f'paper.{measure}: expected "mean (std)" such as "88.73 (0.66)", or "-", got {value!r}')
    return [float(match[1]), float(match[2])]


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
