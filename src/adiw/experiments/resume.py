"""Resume a run or a sweep: its folder must have the same settings, or an error names those that differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from adiw.distributed.process_group import current_processes
from adiw.engine.checkpoint import CheckpointError
from adiw.experiments.checked_io import read_lines
from adiw.experiments.recipes import Recipe
from adiw.experiments.run_folder import Folder
from adiw.experiments.settings import UNRECORDED, Settings, SettingsError, override, resolve


def resumed_settings(out: Path, given: Mapping[str, Any]) -> Settings:
    """The settings of the run in this folder. The ``given`` ones must agree with them; only the length may differ.

    Rank 0 reads the file for all processes: it may be on that machine only.
    """
    processes = current_processes()
    read = _config(Folder(out)) if processes.rank == 0 else {}
    found = processes.broadcast_object(read)
    changed = override(found, given)
    check_same(found, changed)
    try:
        return resolve(changed)
    except SettingsError as error:
        raise CheckpointError(f"{out / 'config.json'}: {error}") from error


def check_folder(folder: Folder, settings: Settings, resume: bool) -> None:
    """Refuse a folder that holds another run, or no run to resume."""
    if resume:
        check_same(_config(folder), settings.as_dict())
    elif folder.read_json("config.json") is not None:
        raise CheckpointError(
            f"{folder.path} already holds a run: add --resume to continue it, or choose another folder with --out"
        )


def _config(folder: Folder) -> dict[str, Any]:
    found: dict[str, Any] | None = folder.read_json("config.json")
    if found is None:
        raise CheckpointError(f"{folder.path} holds no run to resume: omit --resume to start one")
    return found


def check_same(found: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse to resume a run with other settings; the length, in epochs or steps, may differ."""
    before, now = ({**UNRECORDED, **settings, "epochs": None, "steps": None} for settings in (found, given))
    changed = differences(before, now)
    if changed:
        raise CheckpointError(
            f"the run in this folder has other settings ({'; '.join(changed)}): resume with the same ones, "
            "or choose another folder"
        )


def differences(found: Mapping[str, Any], given: Mapping[str, Any], where: str = "") -> list[str]:
    """A text for each setting that differs.

    >>> differences({"lr": 0.1, "seed": 0}, {"lr": 0.2, "seed": 0}, " of KL")
    ['lr of KL was 0.1, is 0.2']
    """
    keys = [key for key in {**found, **given} if found.get(key) != given.get(key)]
    return [f"{key}{where} was {found.get(key)}, is {given.get(key)}" for key in keys]


@contextmanager
def explain_mismatch(folder: Path) -> Iterator[None]:
    """Turn an error of loading a checkpoint into one that says that the network or the data are different."""
    try:
        yield
    except CheckpointError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        detail = str(error).strip().splitlines()[-1].strip()
        raise CheckpointError(
            f"the checkpoint in {folder} does not fit this run ({detail}): if the data or the network have changed "
            "since, choose another folder"
        ) from error


def open_sweep(recipe: Recipe, changes: Mapping[str, Any], out: Path) -> Folder:
    """The folder of a sweep with its recipe.json, created where it is missing.

    A folder that holds another recipe, or the same with other settings, is refused: a table never mixes two. More
    trials, rows and columns may be added. ``changes`` are settings of the command that override the recipe's.
    """
    folder = Folder(out)
    found = folder.read_json("recipe.json")
    given = json.loads(json.dumps({**recipe.as_dict(), "changes": dict(changes)}))
    if found is not None:
        if found["name"] != recipe.name:
            raise SettingsError(f"{out} holds the sweep {found['name']}: choose another folder with --out")
        changed = _changed(found, given)
        if changed:
            text = f"{out} holds the sweep {recipe.name} with other settings ({'; '.join(changed)})"
            raise SettingsError(f"{text}: choose another folder with --out")
    for records in sorted(out.glob("*.jsonl")):
        read_lines(records)  # raises for a damaged file, before its digest is removed
    folder.create()
    folder.remove_sums()
    folder.write_json("recipe.json", given)
    folder.write_sums("recipe.json")
    return folder


def _changed(found: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Which settings differ between two recipe.json, in the rows and columns that both have."""
    before, now = _by_source(found), _by_source(given)
    return [text for source in now if source in before for text in differences(before[source], now[source], source)]


def _by_source(recipe: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    entries = {f" of {entry['label']}": entry["settings"] for entry in (*recipe["columns"], *recipe["rows"])}
    return {" of the recipe": recipe["common"], " of the command": recipe["changes"], **entries}
