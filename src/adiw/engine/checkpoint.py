"""Checkpoints that are whole or not there: written aside, flushed, renamed; the one before is kept."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import torch

NAME, PREVIOUS = "checkpoint.pt", "checkpoint-previous.pt"


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be read, or belongs to another run."""


def write_atomically(path: Path, payload: bytes) -> None:
    """Replace ``path`` with ``payload``: after a crash it holds the old content or the new, never a part."""
    aside = path.with_name(path.name + ".part")
    with aside.open("wb") as file:
        file.write(payload)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)


def save(folder: Path, state: dict[str, Any]) -> None:
    """Write ``state`` to the folder; the checkpoint that was there becomes the previous one."""
    path = folder / NAME
    aside = path.with_name(NAME + ".part")
    with aside.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    if path.exists():
        os.replace(path, folder / PREVIOUS)
    os.replace(aside, path)


def load(folder: Path, device: torch.device) -> dict[str, Any] | None:
    """The newest checkpoint of the folder, None when there is none. Nothing in it is executed."""
    for name in (NAME, PREVIOUS):  # a kill between the two renames leaves only the previous one
        path = folder / name
        if not path.exists():
            continue
        try:
            _check_sums(path)
            state = dict(torch.load(path, map_location=device, weights_only=True))
        except Exception as error:
            older = name == NAME and (folder / PREVIOUS).exists()
            advice = f"delete it to go on from {PREVIOUS}" if older else "delete it to start from the first epoch"
            raise CheckpointError(f"{path} is damaged ({type(error).__name__}): {advice}") from error
        return state
    return None


def _check_sums(path: Path) -> None:
    """Compare the file's parts with their checksums, which torch.load does not look at."""
    with zipfile.ZipFile(path) as file:
        broken = file.testzip()
    if broken is not None:
        raise zipfile.BadZipFile(broken)
