"""The idx format of MNIST and its relatives: big-endian header, then unsigned bytes."""

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import IO, cast

import torch
from torch import Tensor

from adiw.data.digest import check_bytes
from adiw.data.errors import DataError

MAX_BYTES = 1 << 31  # a header that claims more is damaged
GZIP = 1100  # so many bytes at most come out of one: a header that claims more must not be believed


def read_idx(path: Path, dims: int, digest: str | None = None) -> Tensor:
    """A uint8 tensor with `dims` dimensions from an idx file, gzip-compressed when its name ends in .gz.

    digest: expected digest of the uncompressed file, see `check_stream`; None skips the check.
    """
    try:
        with _open(path) as stream:
            header, shape = _header(stream, dims, path)
            size = math.prod(shape)
            body = stream.read(size + 1)  # one more, to notice a file that is too long
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: damaged or truncated ({error}); fetch it again") from error
    if len(body) != size:
        state = "truncated" if len(body) < size else "too long"
        raise DataError(
            f"{path}: {state}; the header says {shape}, that is {size} bytes, "
            f"found {len(body) if len(body) < size else 'more'}; fetch it again"
        )
    if digest is not None:
        check_bytes(header + body, digest, path)
    return torch.frombuffer(bytearray(body), dtype=torch.uint8).reshape(shape)


def _open(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _header(stream: IO[bytes], dims: int, path: Path) -> tuple[bytes, tuple[int, ...]]:
    """Bytes 0, 0, type (8: unsigned byte), number of dimensions; then each dimension in four bytes."""
    header = stream.read(4 + 4 * dims)
    magic = bytes([0, 0, 8, dims])
    if header[:4] != magic:
        raise DataError(
            f"{path}: expected the magic number 0x{magic.hex()} (idx, unsigned bytes, {dims} dimensions), "
            f"found 0x{header[:4].hex()}; the file is not idx or its content is of another kind"
        )
    if len(header) < 4 + 4 * dims:
        raise DataError(f"{path}: truncated in the header, {len(header)} bytes long; fetch it again")
    shape = struct.unpack(f">{dims}I", header[4:])
    if not 0 < math.prod(shape) <= min(MAX_BYTES, GZIP * path.stat().st_size):
        raise DataError(f"{path}: the header says {shape}, empty or implausibly large; fetch it again")
    return header, shape
