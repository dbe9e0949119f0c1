"""Checkpoints that are whole or not there: written aside, flushed, renamed; the one before is kept.

A checkpoint is the zip file that ``torch.save`` writes, with the SHA-256 of all bytes before it as the zip's comment:
whoever reads it with ``torch.load`` does not notice, and here one flipped bit does not pass.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedRandom
from pathlib import Path
from typing import Any

import torch

NAME, PREVIOUS = "checkpoint.pt", "checkpoint-previous.pt"
_MARK = b"sha256:"
_COMMENT = len(_MARK) + 64  # bytes


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be read, or belongs to another run."""


def write_atomically(path: Path, payload: bytes) -> None:
    """Replace ``path`` with ``payload``: after a crash it holds the old content or the new, never a part."""
    with _aside(path) as file:
        file.write(payload)
    os.replace(_part(path), path)
    _flush(path.parent)


def save(folder: Path, state: dict[str, Any]) -> None:
    """Write ``state`` to the folder; the checkpoint that was there becomes the previous one."""
    save_file(folder / NAME, state, folder / PREVIOUS)


def save_file(path: Path, state: dict[str, Any], previous: Path | None = None) -> None:
    """Replace ``path`` with ``state`` and its digest; what was there becomes ``previous``, when that is named."""
    with _aside(path) as file:
        torch.save(state, file)
        _sign(file)
    if previous is not None and path.exists():
        os.replace(path, previous)
    os.replace(_part(path), path)
    _flush(path.parent)


def load(folder: Path, device: torch.device) -> dict[str, Any] | None:
    """The newest checkpoint of the folder, None when there is none. Nothing in it is executed."""
    for name in (NAME, PREVIOUS):  # a kill between the two renames leaves only the previous one
        path = folder / name
        if not path.exists():
            continue
        older = name == NAME and (folder / PREVIOUS).exists()
        return load_file(path, device, f"go on from {PREVIOUS}" if older else "start from the first epoch")
    return None


def load_file(path: Path, device: torch.device, otherwise: str) -> dict[str, Any]:
    """What ``save_file`` wrote; of a damaged file an error that says what deleting it leads to."""
    try:
        _check(path)
        return dict(torch.load(path, map_location=device, weights_only=True))
    except Exception as error:
        reason = str(error) if isinstance(error, CheckpointError) else type(error).__name__
        raise CheckpointError(f"{path} is damaged ({reason}): delete it to {otherwise}") from error


def _part(path: Path) -> Path:
    return path.with_name(path.name + ".part")


@contextmanager
def _aside(path: Path) -> Iterator[BufferedRandom]:
    """A file beside ``path`` to write to, on the disk when this ends; a full disk is an OSError that names it."""
    try:
        with _part(path).open("wb+") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except BaseException as error:
        _part(path).unlink(missing_ok=True)  # where the disk is full, its space is needed
        cause = error.__context__ if isinstance(error, RuntimeError) else error  # torch.save hides it behind its own
        if isinstance(cause, OSError):
            raise OSError(cause.errno, cause.strerror, str(path)) from error
        raise


def _flush(folder: Path) -> None:
    """Make renames in a folder outlast a power cut; Windows cannot open folders, and does so by itself."""
    if os.name != "nt":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _sign(file: BufferedRandom) -> None:
    """Give a zip file without a comment its digest as the comment; the last two bytes are the comment's length."""
    file.seek(-2, os.SEEK_END)
    file.write(_COMMENT.to_bytes(2, "little"))
    file.seek(0)
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    file.seek(0, os.SEEK_END)
    file.write(_MARK + digest.encode())


def _check(path: Path) -> None:
    """Compare the file with the digest at its end."""
    with path.open("rb") as file:
        size = path.stat().st_size - _COMMENT
        state = hashlib.sha256()
        for start in range(0, size, 1 << 20):
            state.update(file.read(min(1 << 20, size - start)))
        if size <= 0 or file.read() != _MARK + state.hexdigest().encode():
            raise CheckpointError("its content does not match its digest")
