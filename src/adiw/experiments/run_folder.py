"""The folder of a run or a sweep: every file is replaced as a whole, or grows by whole lines."""

from __future__ import annotations

import fcntl
import io
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from adiw.engine.checkpoint import write_atomically
from adiw.experiments.checked_io import SUMS, Row, json_line, read_json, sums_of


class Folder:
    """The folder of a run or a sweep. Processes other than rank 0 have ``writes=False``, and leave it as it is."""

    def __init__(self, path: Path, writes: bool = True) -> None:
        self.path, self.writes = path, writes

    def create(self) -> None:
        """Make the folder and check that it can be written to, before the data are loaded."""
        if not self.writes:
            return
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            marker = self.path / ".writable"
            marker.write_bytes(b"")
            marker.unlink()
        except OSError as error:
            reason = error.strerror or "unknown reason"
            text = f"cannot write to the folder {self.path} ({reason}): choose another"
            raise type(error)(error.errno, text) from error

    def read_json(self, name: str) -> Any:
        """The content of the file; None without a file."""
        file = self.path / name
        return read_json(file) if file.exists() else None

    def write_json(self, name: str, content: Any) -> None:
        self._write(name, (json.dumps(content, indent=2) + "\n").encode())

    def write_rows(self, name: str, rows: list[Row]) -> None:
        """Replace the file by a line of JSON for each row."""
        self._write(name, "".join(map(json_line, rows)).encode())

    def append_row(self, name: str, row: Row) -> None:
        """Add a line of JSON; a last line that a crash has cut short is removed first."""
        if not self.writes:
            return
        with (self.path / name).open("ab+") as target:
            size = target.tell()
            target.seek(max(size - 1, 0))
            if target.read() not in (b"", b"\n"):
                target.seek(0)
                target.truncate(target.read().rfind(b"\n") + 1)
            target.write(json_line(row).encode())

    def write_array(self, name: str, array: np.ndarray[Any, Any]) -> None:
        payload = io.BytesIO()
        np.save(payload, array, allow_pickle=False)
        self._write(name, payload.getvalue())

    def remove(self, name: str) -> None:
        if self.writes:
            (self.path / name).unlink(missing_ok=True)

    def write_sums(self, *names: str) -> None:
        """Write SHA256SUMS for these files; call ``remove_sums`` before one of them changes."""
        if self.writes:
            self._write(SUMS, sums_of(self.path, names))

    def remove_sums(self) -> None:
        self.remove(SUMS)

    def _write(self, name: str, payload: bytes) -> None:
        if self.writes:
            write_atomically(self.path / name, payload)


@contextmanager
def only_process(path: Path) -> Iterator[Callable[[], bool]]:
    """A function that returns whether this process has the folder for itself; once true, it stays true in the block.

    The operating system releases the lock when the process ends, even if it is killed.
    """
    Folder(path).create()
    handle = os.open(path / ".lock", os.O_RDWR | os.O_CREAT, 0o666)

    def locked() -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            pass
        return True

    try:
        yield locked
    finally:
        os.close(handle)
