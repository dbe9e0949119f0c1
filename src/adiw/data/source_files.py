"""Where data come from: the folder of the data sets, the user's own path, and the digests of official files."""

import hashlib
import os
from pathlib import Path

from adiw.data.errors import DataError


def data_root() -> Path:
    """The folder that holds the data sets: $ADIW_DATA, or ./data when it is not set."""
    return Path(os.environ.get("ADIW_DATA") or "data")


def require_path(name: str, path: Path | None, what: str) -> Path:
    """The user's own file or folder for the data set ``name``; an error describes what it must be."""
    if path is None:
        raise DataError(f"{name} needs a path: {what}")
    try:
        found = path.exists()
    except OSError as error:  # the name is too long, or a parent folder is not readable
        raise DataError(f"{name}: {str(path)[:100]} cannot be read ({error.strerror})") from error
    if not found:
        raise DataError(f"{name}: {path} does not exist; expected {what}")
    return path


def check_digest(payload: bytes, expected: str, path: Path) -> None:
    """Compare a file's content with its digest; ``path`` names the file in the error.

    expected: "sha256:HEX" or "md5:HEX"; "bytes:N", the size, where no digest of the file is published.
    """
    kind, _, value = expected.partition(":")
    # md5 is what the authors publish; systems that forbid it for security allow it as a checksum.
    found = str(len(payload)) if kind == "bytes" else hashlib.new(kind, payload, usedforsecurity=False).hexdigest()
    if found != value:
        raise DataError(
            f"{path}: expected {expected}, found {kind}:{found}; the file is damaged or not the official "
            "one; download it again, or load with verify=False if the change is yours"
        )
