"""Reading a run's files so that damage is noticed: by the folder's SHA256SUMS, and line by line where files grow.

A line of a .jsonl file ends in the CRC-32 of the rest, as the key ``crc32``. What has no digest, such as a file of an
earlier version, is read as it is.
"""

from __future__ import annotations

import io
import json
import math
import re
import zlib
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adiw.experiments.sums import NAME as SUMS
from adiw.experiments.sums import recorded

Row = dict[str, Any]
_CHECK = re.compile(r', "crc32": "([0-9a-f]{8})"}')


class DamagedError(ValueError):
    """A file whose content is not what was written."""


def read_bytes(file: Path) -> bytes:
    """The file's content, compared with its digest in the SHA256SUMS beside it."""
    payload, digest = file.read_bytes(), recorded(file)
    if digest not in (None, sha256(payload).hexdigest()):
        raise damaged(file, f"its digest is not the one in {SUMS}")
    return payload


def read_json(file: Path) -> Any:
    """What a JSON file holds."""
    try:
        return json.loads(read_bytes(file))
    except DamagedError:
        raise
    except ValueError as error:
        raise damaged(file, str(error)) from error


def read_array(file: Path) -> NDArray[Any]:
    """The plain array in a .npy file; pickles, archives and headers that claim too much are refused."""
    try:  # np.load would open archives too
        array: NDArray[Any] = np.lib.format.read_array(io.BytesIO(read_bytes(file)), allow_pickle=False)
    except DamagedError:
        raise
    except (EOFError, MemoryError, ValueError, SyntaxError) as error:
        raise damaged(file, str(error)) from error
    return array


def read_lines(file: Path) -> list[Row]:
    """The rows of a .jsonl file, none where there is no file; a last line that was cut short is left out."""
    text = read_bytes(file).decode(errors="replace") if file.exists() else ""
    *lines, last = text.split("\n")
    found = _CHECK.search(last)
    lines += [last] if found is not None and found.end() < len(last) else []  # not cut short: something follows it
    return [_row(line, f"{file}, line {number}") for number, line in enumerate(lines, start=1) if line.strip()]


def line(row: Row) -> str:
    """A row as a line of JSON, which knows no nan and no infinity: they become null.

    >>> line({"epoch": 1, "loss": math.nan})
    '{"epoch": 1, "loss": null, "crc32": "0cbfafa8"}\\n'
    """
    plain = {
        key: value if not isinstance(value, float) or math.isfinite(value) else None for key, value in row.items()
    }
    text = json.dumps(plain, allow_nan=False)
    return f'{text[:-1]}, "crc32": "{zlib.crc32(text.encode()):08x}"}}\n'


def _row(text: str, where: str) -> Row:
    """
    >>> _row('{"epoch": 2, "loss": null, "crc32": "0cbfafa8"}', "metrics.jsonl, line 1")
    Traceback (most recent call last):
    adiw.experiments.sealed.DamagedError: metrics.jsonl, line 1 is damaged (its checksum differs): ...
    """
    found = _CHECK.search(text)
    if found is not None and found.end() < len(text):
        raise damaged(where, "there is something after its checksum")
    whole = text if found is None else text[: found.start()] + "}"
    if found is not None and f"{zlib.crc32(whole.encode()):08x}" != found[1]:
        raise damaged(where, "its checksum differs")
    try:
        row = json.loads(whole)
    except ValueError as error:
        raise damaged(where, str(error)) from error
    if not isinstance(row, dict):
        raise damaged(where, "it is not an object")
    return row


def damaged(what: Path | str, reason: str) -> DamagedError:
    """The error for a file that is not what was written."""
    return DamagedError(f"{what} is damaged ({reason}): restore it from a copy, or make it again")
