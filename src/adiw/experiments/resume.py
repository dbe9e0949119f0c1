"""Whether a folder's run may be gone on with, and errors that say why not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from adiw.engine.checkpoint import CheckpointError
from adiw.experiments.record import Folder
from adiw.experiments.settings import Settings


def check_folder(folder: Folder, settings: Settings, resume: bool) -> None:
    """Refuse a folder that holds another run, or none to go on with."""
    found = folder.read_json("config.json")
    if not resume and found is not None:
        raise CheckpointError(f"{folder.path} already holds a run: add --resume to go on with it, or choose another")
    if resume and found is None:
        raise CheckpointError(f"{folder.path} holds no run to resume: leave --resume out to start one")
    if found is not None:
        check_same(found, settings)


def check_same(found: dict[str, Any], settings: Settings) -> None:
    """Refuse to go on with a run of other settings; more epochs are allowed."""
    given = settings.as_dict()
    changed = [
        f"{key} was {found.get(key)}, is {given.get(key)}"
        for key in {**found, **given}
        if key != "epochs" and found.get(key) != given.get(key)
    ]
    if changed:
        raise CheckpointError(
            f"the run in this folder has other settings ({'; '.join(changed)}): resume with the same ones, "
            "or choose another folder"
        )


@contextmanager
def fitting(folder: Path) -> Iterator[None]:
    """Around the use of a checkpoint: what fails there is a checkpoint of something else."""
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
