"""Checkpoint files: written to a temporary file, flushed and renamed, so that a crash never leaves a partial file.

A checkpoint is the zip file that ``torch.save`` writes, with the SHA-256 digest of all bytes before it as the zip
comment. ``torch.load`` ignores the comment; ``load`` refuses a file in which a single bit has changed.
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
_PREFIX = b"sha256:"
_COMMENT_BYTES = len(_PREFIX) + 64


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be read, or that belongs to another run."""


def write_atomically(path: Path, payload: bytes) -> None:
    """Replace ``path`` with ``payload``: after a crash it holds all of the old or all of the new content."""
    with _temporary_file(path) as file:
        file.write(payload)
    os.replace(_temporary_path(path), path)
    _flush_folder(path.parent)


def save(folder: Path, state: dict[str, Any]) -> None:
    """Write ``state`` to the folder and keep its last checkpoint as the previous one."""
    save_file(folder / NAME, state, folder / PREVIOUS)


def save_file(path: Path, state: dict[str, Any], previous: Path | None = None) -> None:
    """Replace ``path`` with ``state`` and its digest; the old file is renamed to ``previous``, if given."""
    with _temporary_file(path) as file:
        torch.save(state, file)
        _append_digest(file)
    if previous is not None and path.exists():
        os.replace(path, previous)
    os.replace(_temporary_path(path), path)
    _flush_folder(path.parent)


def load(folder: Path, device: torch.device) -> dict[str, Any] | None:
    """The newest checkpoint of the folder, or None. Unpickling cannot run code."""
    for name in (NAME, PREVIOUS):  # a kill between the two renames leaves only the previous one
        path = folder / name
        if not path.exists():
            continue
        has_previous = name == NAME and (folder / PREVIOUS).exists()
        return load_file(path, device, f"resume from {PREVIOUS}" if has_previous else "start from the first epoch")
    return None


def load_file(path: Path, device: torch.device, otherwise: str) -> dict[str, Any]:
    """Read what ``save_file`` wrote. For a damaged file, the error says "delete it to ``otherwise``"."""
    try:
        _check_digest(path)
        return dict(torch.load(path, map_location=device, weights_only=True))
    except Exception as error:
        reason = str(error) if isinstance(error, CheckpointError) else type(error).__name__
        raise CheckpointError(f"{path} is damaged ({reason}): delete it to {otherwise}") from error


def _temporary_path(path: Path) -> Path:
    return path.with_name(path.name + ".part")


@contextmanager
def _temporary_file(path: Path) -> Iterator[BufferedRandom]:
    """A temporary file beside ``path``, flushed at the end; a full disk is an OSError that names ``path``."""
    try:
        with _temporary_path(path).open("wb+") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except BaseException as error:
        _temporary_path(path).unlink(missing_ok=True)  # a full disk needs the space
        cause = error.__context__ if isinstance(error, RuntimeError) else error  # torch.save hides the OSError
        if isinstance(cause, OSError):
            raise OSError(cause.errno, cause.strerror, str(path)) from error
        raise


def _flush_folder(folder: Path) -> None:
    """Make renames in a folder survive a power cut; Windows cannot open folders and does not need it."""
    if os.name != "nt":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _append_digest(file: BufferedRandom) -> None:
    """Append the digest to a zip file as its comment, whose length is in the file's last two bytes."""
    file.seek(-2, os.SEEK_END)
    file.write(_COMMENT_BYTES.to_bytes(2, "little"))
    file.seek(0)
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    file.seek(0, os.SEEK_END)
    file.write(_PREFIX + digest.encode())


def _check_digest(path: Path) -> None:
    """Compare the file with the digest at its end."""
    with path.open("rb") as file:
        size = path.stat().st_size - _COMMENT_BYTES
        digest = hashlib.sha256()
        for start in range(0, size, 1 << 20):
            digest.update(file.read(min(1 << 20, size - start)))
        if size <= 0 or file.read() != _PREFIX + digest.hexdigest().encode():
            raise CheckpointError("its content does not match its digest")
