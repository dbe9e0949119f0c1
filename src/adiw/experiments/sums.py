"""SHA256SUMS: the digests of a folder's files, as the command ``sha256sum`` writes and checks them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

NAME = "SHA256SUMS"
_LINE = re.compile(r"^([0-9a-f]{64})  (.+)$", re.MULTILINE)


def sums_of(folder: Path, names: Iterable[str]) -> bytes:
    """The content of SHA256SUMS for these files of the folder, those that are there."""
    lines = []
    for name in names:
        if (folder / name).exists():
            with (folder / name).open("rb") as file:
                lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}\n")
    return "".join(lines).encode()


def recorded(file: Path) -> str | None:
    """The digest of this file in the SHA256SUMS beside it; None where that does not name it."""
    sums = file.with_name(NAME)
    text = sums.read_text(encoding="utf-8", errors="replace") if sums.exists() else ""
    return {name: digest for digest, name in _LINE.findall(text)}.get(file.name)
