"""Published digests of data files."""

import hashlib
import io
import zlib
from pathlib import Path
from typing import IO

from adiw.data.errors import DataError


def check_stream(stream: IO[bytes], expected: str, path: Path) -> None:
    """Compare what remains in a stream with `expected`; `path` names the file in the error.

    expected: "sha256:HEX" or "md5:HEX", or "bytes:N" where no digest of the file is published.
    """
    kind, _, value = expected.partition(":")
    try:
        found = _size(stream) if kind == "bytes" else _digest(stream, kind)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: damaged or truncated ({error}); delete it and fetch it again") from error
    if found != value:
        raise DataError(
            f"{path}: expected {expected}, found {kind}:{found}; the file is damaged or not the official "
            "one; fetch it again, or load with verify=False if the change is yours"
        )


def check_bytes(payload: bytes, expected: str, path: Path) -> None:
    """The same for a payload already read.

    >>> check_bytes(b"abc", "md5:900150983cd24fb0d6963f7d28e17f72", Path("x"))
    >>> check_bytes(b"abc", "bytes:3", Path("x"))
    """
    check_stream(io.BytesIO(payload), expected, path)


def _digest(stream: IO[bytes], algorithm: str) -> str:
    # Not for security: md5 is what the authors publish, and some systems refuse it otherwise.
    state = hashlib.new(algorithm, usedforsecurity=False)
    for block in iter(lambda: stream.read(1 << 20), b""):
        state.update(block)
    return state.hexdigest()


def _size(stream: IO[bytes]) -> str:
    return str(sum(len(block) for block in iter(lambda: stream.read(1 << 20), b"")))
