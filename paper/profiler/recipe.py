"""Profile recipes: the settings of each implementation, the profiled epochs and the paper's figures."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adiw.experiments.recipes import check_keys, entries, paper_figures, table_of, text_of
from adiw.experiments.settings import Settings, SettingsError, resolve, unknown
from paper.profiler.implementations import check_method
from paper.profiler.stages import STAGES

FOLDER = Path(__file__).parents[1] / "recipes"
_KEYS = ("title", "about", "epochs_profiled", "settings", "row", "paper")


@dataclass(frozen=True)
class ProfileRecipe:
    """What is profiled, and the paper's figures.

    Attributes:
        epochs: the profiled epochs, counted from 1.
        settings: implementation -> its settings.
        paper: "cpu" and "cuda" -> implementation -> [seconds, percent] of every stage, and of their total last.
    """

    name: str
    title: str
    epochs: tuple[int, ...]
    settings: dict[str, Settings]
    paper: dict[str, dict[str, list[Any]]]


def load(name: str, changes: Mapping[str, Any] | None = None) -> ProfileRecipe:
    """The recipe of this name in ``paper/recipes``, or in this file if the name ends in .toml.

    ``changes`` override the settings of all implementations. Errors name the file.
    """
    known = sorted(file.stem for file in FOLDER.glob("profile-*.toml"))
    if not name.endswith(".toml") and name not in known:
        raise unknown("profile", name, known)
    file = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    try:
        return _read(file.stem, tomllib.loads(file.read_text(encoding="utf-8")), changes or {})
    except (OSError, ValueError) as error:
        raise SettingsError(f"{file.name}: {error}") from error


def chosen(recipe: ProfileRecipe, names: Sequence[str]) -> dict[str, Settings]:
    """The settings of these implementations; of all if ``names`` is empty."""
    for name in names:
        if name not in recipe.settings:
            raise unknown("implementation", name, recipe.settings)
    return {name: settings for name, settings in recipe.settings.items() if not names or name in names}


def _read(name: str, given: dict[str, Any], changes: Mapping[str, Any]) -> ProfileRecipe:
    check_keys("the profile", given, _KEYS)
    text_of(given, "about")
    common, rows = table_of(given, "settings"), entries(given, "row")
    settings = {row.label: resolve({**common, **row.settings, **changes}) for row in rows}
    for label, of_row in settings.items():
        check_method(label, of_row)
    epochs = given.get("epochs_profiled", [1])
    if not isinstance(epochs, list) or not all(type(epoch) is int for epoch in epochs):
        raise SettingsError(f"epochs_profiled: expected a list of whole numbers, got {epochs!r}")
    figures = paper_figures(given, list(settings), len(STAGES) + 1, ("cpu", "cuda"))
    return ProfileRecipe(name, text_of(given, "title"), tuple(epochs), settings, figures)
