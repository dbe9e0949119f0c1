"""Files of runs and sweeps, compared with their digests when they are read.

SHA256SUMS holds the digests of a folder's finished files, in the format of the command ``sha256sum``. A file that it
does not name, such as a log that still grows, is read without this comparison.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SUMS = "SHA256SUMS"
Row = dict[str, Any]
_SUM = re.compile(r"^([0-9a-f]{64})  (.+)$", re.MULTILINE)


class DamagedError(ValueError):
    """A file whose content is not what was written."""


def sums_of(folder: Path, names: Iterable[str]) -> bytes:
    """The content of SHA256SUMS for these files; names without a file are skipped."""
    found = [folder / name for name in names if (folder / name).exists()]
    return "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in found).encode()


def recorded_digest(file: Path) -> str | None:
    """The digest of this file in the SHA256SUMS of its folder; None if it is not listed."""
    sums = file.with_name(SUMS)
    text = sums.read_text(encoding="utf-8", errors="replace") if sums.exists() else ""
    return {name: digest for digest, name in _SUM.findall(text)}.get(file.name)


def read_bytes(file: Path) -> bytes:
    """The content of a file, compared with its digest in SHA256SUMS."""
    payload = file.read_bytes()
    if recorded_digest(file) not in (None, hashlib.sha256(payload).hexdigest()):
        reason = f"its digest is not the one in {SUMS}; if the change is yours, delete {SUMS}"
        raise _damaged(file, reason)
    return payload


def read_json(file: Path) -> Any:
    payload = read_bytes(file)
    try:
        return json.loads(payload)
    except ValueError as error:
        raise _damaged(file, str(error)) from error


def read_array(file: Path) -> NDArray[Any]:
    """The array in a .npy file; pickles, archives and headers with implausible sizes are refused."""
    payload = io.BytesIO(read_bytes(file))
    try:  # np.load also opens archives
        array: NDArray[Any] = np.lib.format.read_array(payload, allow_pickle=False)
    except (EOFError, MemoryError, ValueError, SyntaxError) as error:
        raise _damaged(file, str(error)) from error
    return array


def read_lines(file: Path) -> list[Row]:
    """The rows of a .jsonl file; a last line without its line end was cut short by a crash and is skipped.

    A file that does not exist has no rows.
    """
    text = read_bytes(file).decode(errors="replace") if file.exists() else ""
    lines = text.split("\n")[:-1]
    return [_row(line, f"{file}, line {number}") for number, line in enumerate(lines, start=1) if line.strip()]


def json_line(row: Row) -> str:
    """A row as a line of JSON. NaN and infinity become null, because JSON has neither.

    >>> json_line({"epoch": 1, "loss": math.nan})
    '{"epoch": 1, "loss": null}\\n'
    """
    plain = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()
    }
    return json.dumps(plain, allow_nan=False) + "\n"


def _row(text: str, where: str) -> Row:
    try:
        row = json.loads(text)
    except ValueError as error:
        raise _damaged(where, str(error)) from error
    if not isinstance(row, dict):
        raise _damaged(where, "it is not an object")
    return row


def _damaged(what: Path | str, reason: str) -> DamagedError:
    return DamagedError(f"{what} is damaged ({reason}): restore it from a copy, or make it again")
