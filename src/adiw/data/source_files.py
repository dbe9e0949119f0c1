"""Where data come from: the folder of the data sets, the user's own path, and digests; and ``DataError``."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path


class DataError(ValueError):
    """The data cannot be used: the message says what was expected, what was found and how to fix it."""


def missing_files(name: str, folder: Path, files: Iterable[str]) -> DataError:
    """Error for missing files: where they belong and the command that downloads them.

    >>> print(missing_files("cifar10", Path("data"), ["test_batch.bin"]))
    cifar10 is not complete: data has no test_batch.bin; run `adiw data get cifar10`, or put it there
    """
    names = list(files)
    return DataError(
        f"{name} is not complete: {folder.as_posix()} has no {', '.join(names)}; "
        f"run `adiw data get {name}`, or put {'it' if len(names) == 1 else 'them'} there"
    )


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


def check_digest(payload: bytes, expected: str, path: Path) -> bytes:
    """A file's content, compared with its digest; ``path`` names the file in the error.

    expected: "sha256:HEX" or "md5:HEX"; "bytes:N", the size, where no digest of the file is published.
    """
    kind, _, value = expected.partition(":")
    # md5 is what the authors publish; systems that forbid it for security allow it as a checksum.
    found = str(len(payload)) if kind == "bytes" else hashlib.new(kind, payload, usedforsecurity=False).hexdigest()
    if found != value:
        raise DataError(
            f"{path}: expected {expected}, found {kind}:{found}; the file is damaged or not the official "
            "one; download it again"
        )
    return payload
