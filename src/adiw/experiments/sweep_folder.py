"""The folder of a sweep. It holds one recipe, with one set of settings: its tables never mix two.

``recipe.json`` is the recipe and ``changes``, the settings that go over it; ``results.jsonl`` and ``timing.jsonl``
have a line for each run that ended and each cell that was timed; ``runs`` and ``timed`` hold the runs' own folders.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from adiw.experiments.recipe import Recipe
from adiw.experiments.record import Folder
from adiw.experiments.settings import SettingsError


def open_sweep(recipe: Recipe, changes: Mapping[str, Any], out: Path) -> Folder:
    """The folder, made where it is missing. One that holds another recipe, or other settings, is refused.

    More trials, rows and columns may be added to it.
    """
    folder = Folder(out)
    found = folder.read_json("recipe.json")
    given = json.loads(json.dumps({**recipe.as_dict(), "changes": dict(changes)}))
    if found is not None:
        if found["name"] != recipe.name:
            raise SettingsError(f"{out} holds the sweep {found['name']}: choose another folder with --out")
        changed = _changed(_settings(found), _settings(given))
        if changed:
            text = f"{out} holds the sweep {recipe.name} with other settings ({'; '.join(changed)})"
            raise SettingsError(f"{text}: choose another folder with --out")
    folder.create()
    folder.unseal()
    folder.write_json("recipe.json", given)
    folder.seal("recipe.json")
    return folder


def _settings(recipe: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """All settings of a recipe.json, by where they are said."""
    entries = {entry["label"]: entry["settings"] for entry in (*recipe["columns"], *recipe["rows"])}
    return {"the recipe": recipe["common"], "the command": recipe.get("changes", {}), **entries}


def _changed(before: dict[str, dict[str, Any]], now: dict[str, dict[str, Any]]) -> list[str]:
    """What differs, of the rows and columns that both have.

    >>> _changed({"the command": {"epochs": 2}, "DIW": {}}, {"the command": {}, "KL": {"lr": 1}})
    ['epochs of the command was 2, is None']
    """
    return [
        f"{key} of {where} was {before[where].get(key)}, is {now[where].get(key)}"
        for where in now
        if where in before
        for key in {**before[where], **now[where]}
        if before[where].get(key) != now[where].get(key)
    ]
