"""CIFAR's Python batches, read without running anything they contain.

A pickle is a program that may call any function it can name. Here the four names that the official
batches use stand for inert classes of this file, every other name is refused, and so the worst that
a crafted file can do is to build nonsense, which is then checked like any other data.
"""

import io
import math
import pickle
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from adiw.data.errors import DataError


class _Array:
    """Stands for numpy.ndarray: keeps the state it was pickled with."""

    state: object = None

    def __setstate__(self, state: object) -> None:
        self.state = state


class _Dtype:
    """Stands for numpy.dtype: keeps its name; the byte order in its state means nothing for bytes."""

    def __init__(self, name: object = None, *_: object) -> None:
        self.name = name

    def __setstate__(self, state: object) -> None: ...


def _reconstruct(*_: object) -> _Array:
    return _Array()


def _encode(text: str, encoding: str) -> bytes:
    if encoding not in ("latin1", b"latin1"):
        raise pickle.UnpicklingError(f"encoding {encoding!r}")
    return text.encode("latin1")


ALLOWED: dict[tuple[str, str], object] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _encode,
}


class _InertUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"it names {module}.{name}")
        return ALLOWED[module, name]


def read_pickle(payload: bytes, path: Path, label_key: bytes) -> tuple[Tensor, Tensor]:
    """Images (n, 3, 32, 32) uint8 and labels (n,) int64 of one batch; `path` names the file in errors."""
    try:
        batch = _InertUnpickler(io.BytesIO(payload), encoding="bytes").load()
        pixels = _pixels(batch[b"data"])
        labels = batch[label_key]
        if not isinstance(labels, list) or not all(type(label) is int for label in labels):
            raise ValueError("labels are not a list of integers")
        y = torch.tensor(labels, dtype=torch.int64)
    except Exception as error:  # a crafted file may make the unpickler raise anything
        raise DataError(
            f"{path}: refused, expected a CIFAR batch with b'data' and {label_key!r} ({error}); "
            "fetch the official file again, and do not open this one with pickle.load"
        ) from error
    if len(pixels) != len(y):
        raise DataError(f"{path}: expected {len(pixels)} labels, one per image, found {len(y)}")
    return pixels, y


def _pixels(array: object) -> Tensor:
    """The (n, 3072) bytes that an _Array was pickled with, as (n, 3, 32, 32)."""
    if not isinstance(array, _Array) or not isinstance(array.state, tuple):
        raise ValueError("data is not an array")
    _, shape, dtype, fortran, raw = array.state
    if not isinstance(dtype, _Dtype) or dtype.name not in (b"u1", "u1"):
        raise ValueError("data is not an array of unsigned bytes")
    if len(shape) != 2 or shape[1] != 3072 or not isinstance(raw, bytes) or len(raw) != math.prod(shape):
        raise ValueError(f"data has shape {shape}, expected (n, 3072)")
    rows = np.frombuffer(raw, np.uint8).reshape(shape, order="F" if fortran else "C")
    return torch.from_numpy(np.array(rows, order="C")).reshape(-1, 3, 32, 32)
