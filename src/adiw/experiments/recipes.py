"""The recipes, one readable file each in ``recipe_files``: their names, and loading one.

A recipe of its own states ``title``, ``about``, ``trials``, ``[settings]``, ``[[column]]``, ``[[row]]`` and the
paper's figures. One with ``base`` changes another: ``[settings]`` for all rows, ``[rows.LABEL]`` for one, and a
``[[deviation]]`` for everything that comes out different.
"""

from __future__ import annotations

import tomllib
from dataclasses import replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from adiw.experiments.deviations import check_deviations
from adiw.experiments.methods import find
from adiw.experiments.recipe import KINDS, Entry, Recipe
from adiw.experiments.recipe_keys import check_deviation, check_keys, figure, sentence, table_of
from adiw.experiments.settings import SettingsError, unknown
from adiw.shifts import parse

__all__ = ["Entry", "Recipe", "load", "load_file", "names"]

MEASURES = ("accuracy", "top5")
_OWN = ("title", "about", "kind", "trials", "measures", "settings", "column", "row", "paper")
_PROFILE = ("stages", "epochs_profiled")
_DERIVED = ("base", "title", "about", "trials", "settings", "rows", "deviation")


def names() -> list[str]:
    """The names of the recipes, sorted.

    >>> "fmnist-noise" in names()
    True
    """
    return sorted(file.name.removesuffix(".toml") for file in _folder().iterdir() if file.name.endswith(".toml"))


def load(name: str) -> Recipe:
    """The recipe of that name, or in that file where the name ends in .toml; checked as a whole.

    >>> recipe = load("fmnist-noise")
    >>> recipe.settings(recipe.rows[6], recipe.columns[1], trial=0).method
    'adiw-km'
    """
    if name.endswith(".toml"):
        return load_file(Path(name))
    if name not in names():
        raise unknown("recipe", name, names())
    return load_file(_folder() / f"{name}.toml")


def load_file(file: Path | Traversable) -> Recipe:
    """The recipe in a TOML file; errors name the file."""
    try:
        given = tomllib.loads(file.read_text(encoding="utf-8"))
        recipe = _derived(given) if "base" in given else _own(given)
        recipe = replace(recipe, name=file.name.removesuffix(".toml"))
        _check(recipe)
        if "base" in given:
            check_deviations(_base(given), recipe)
    except (OSError, ValueError) as error:
        raise SettingsError(f"{file.name}: {error}") from error
    return recipe


def _folder() -> Traversable:
    return files("adiw.experiments") / "recipe_files"


def _own(given: dict[str, Any]) -> Recipe:
    kind = given.get("kind", "runs")
    if kind not in KINDS:
        raise unknown("kind", str(kind), KINDS)
    profile = kind == "profile"
    check_keys("the recipe", given, (*_OWN, *_PROFILE) if profile else _OWN)
    rows, columns = _entries(given, "row"), _entries(given, "column")
    stages, epochs = (tuple(given.get(key, ())) for key in _PROFILE)
    if profile and not (stages and epochs):
        raise SettingsError("a profile needs its stages and epochs_profiled")
    return Recipe(
        name="",
        title=sentence(given, "title"),
        about=sentence(given, "about"),
        kind=kind,
        trials=given.get("trials", 1),
        measures=tuple(given.get("measures", MEASURES[:1])),
        common=table_of(given, "settings"),
        columns=columns,
        rows=rows,
        deviations=(),
        paper=_paper(given, rows, len(stages) if profile else len(columns), ("cpu", "cuda") if profile else MEASURES),
        stages=stages,
        epochs_profiled=epochs,
    )


def _derived(given: dict[str, Any]) -> Recipe:
    check_keys("a recipe with a base", given, _DERIVED)
    base, changes = _base(given), table_of(given, "rows")
    for label in changes:
        if label not in {row.label for row in base.rows}:
            raise unknown("row", label, [row.label for row in base.rows])
    for deviation in given.get("deviation", []):
        check_deviation(deviation)
    return replace(
        base,
        title=sentence(given, "title"),
        about=sentence(given, "about"),
        trials=given.get("trials", base.trials),
        common={**base.common, **table_of(given, "settings")},
        rows=tuple(Entry(row.label, {**row.settings, **changes.get(row.label, {})}) for row in base.rows),
        deviations=tuple(given.get("deviation", [])),
    )


def _base(given: dict[str, Any]) -> Recipe:
    """The paper's recipe that is changed; not one that changes another, since deviations are from the paper."""
    name = sentence(given, "base")
    if name not in names():
        raise unknown("base", name, names())
    if "base" in tomllib.loads((_folder() / f"{name}.toml").read_text(encoding="utf-8")):
        raise SettingsError(f"base {name} has a base itself: name that one")
    return load(name)


def _entries(given: dict[str, Any], key: str) -> tuple[Entry, ...]:
    """The [[row]] or [[column]] tables: a label each, and settings."""
    entries = []
    for table in given.get(key, []):
        label = sentence(table, "label")
        entries.append(Entry(label, {name: value for name, value in table.items() if name != "label"}))
    labels = [entry.label for entry in entries]
    if not labels or len(set(labels)) < len(labels):
        raise SettingsError(f"expected [[{key}]] tables with different labels, found {labels}")
    return tuple(entries)


def _paper(
    given: dict[str, Any], rows: tuple[Entry, ...], count: int, measures: tuple[str, ...]
) -> dict[str, dict[str, list[Any]]]:
    """The paper's figures of every row: ``count`` of each measure, None where the paper has none."""
    tables = table_of(given, "paper")
    check_keys("paper", tables, (*measures, "seconds"))
    found: dict[str, dict[str, list[Any]]] = {}
    for measure, figures in tables.items():
        check_keys(f"paper.{measure}", figures, [row.label for row in rows])
        for label, values in figures.items():
            if len(values) != count:
                raise SettingsError(f"paper.{measure} of {label}: expected {count} figures, came {len(values)}")
        found[measure] = {
            row.label: [figure(value, measure) for value in figures.get(row.label, ["-"] * count)] for row in rows
        }
    return found


def _check(recipe: Recipe) -> None:
    """Every run of the recipe must have settings that can be."""
    if type(recipe.trials) is not int or recipe.trials < 1:
        raise SettingsError(f"trials must be a whole number from 1, got {recipe.trials!r}")
    check_keys("measures", recipe.measures, MEASURES)
    given = [recipe.common, *(entry.settings for entry in (*recipe.rows, *recipe.columns))]
    if any("seed" in settings for settings in given):
        raise SettingsError("seed is no setting of a recipe: trial k has the seed k")
    for row in recipe.rows:
        for column in recipe.columns:
            try:
                settings = recipe.settings(row, column, 0)
                find(settings.method)
                parse(settings.shift)
            except (TypeError, AttributeError) as error:  # text where a number belongs, or the other way round
                raise SettingsError(f"a setting of {row.label} has the wrong type ({error})") from error
