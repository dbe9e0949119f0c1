"""A trusted set that the user already has: read from a file, and checked."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

__all__ = ["check_trusted", "read_indices"]

SHOWN = 10  # a message lists at most this many offenders


def read_indices(path: str | os.PathLike[str]) -> Tensor:
    """``(t,)`` int64 indices from a text file (one per line, blank lines ignored) or a ``.npy`` array.

    Pickled arrays are refused. Whether the indices fit the data is for ``check_trusted`` to say.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "trusted.txt")
    ...     _ = file.write_text("4\\n17\\n")
    ...     read_indices(file)
    tensor([ 4, 17])
    """
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"trusted indices: expected a file, found none at {file}; check the path")
    return _read_npy(file) if file.suffix == ".npy" else _read_text(file)


def _read_npy(file: Path) -> Tensor:
    try:
        with file.open("rb") as stream:  # np.load would open archives too
            array = np.lib.format.read_array(stream, allow_pickle=False)
    except (ValueError, EOFError, MemoryError) as error:
        raise ValueError(
            f"{file}: expected a plain integer array, could not read it ({error}); write it with numpy.save"
        ) from error
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"{file}: expected a (t,) array of integers, came {array.shape} {array.dtype}; "
            "turn a mask into indices with numpy.flatnonzero"
        )
    return torch.from_numpy(array.astype(np.int64))


def _read_text(file: Path) -> Tensor:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: expected text, one integer per line, came bytes that are not UTF-8") from error
    indices: list[int] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            indices.append(int(line))
        except ValueError:
            raise ValueError(
                f"{file}, line {number}: expected one integer, came {line.strip()!r}; write one a line"
            ) from None
    return torch.tensor(indices, dtype=torch.int64)


def check_trusted(trusted: Tensor, y: Tensor, num_classes: int) -> None:
    """Refuse a trusted set that is out of range, repeats a sample, or misses a class.

    Args:
        trusted: ``(t,)`` int64 positions in the training set.
        y: ``(n,)`` int64 labels of the training set.

    >>> check_trusted(torch.tensor([0, 1]), y=torch.tensor([0, 2, 1, 3]), num_classes=4)
    Traceback (most recent call last):
    ValueError: trusted: expected every one of 4 classes, missing 1, 3; add a sample of each
    """
    if trusted.ndim != 1 or trusted.dtype != torch.int64:
        raise ValueError(
            f"trusted: expected (t,) int64 positions, came {tuple(trusted.shape)} {trusted.dtype}; "
            "turn a mask into positions with mask.nonzero().flatten()"
        )
    outside = trusted[(trusted < 0) | (trusted >= len(y))].tolist()
    if outside:
        raise ValueError(
            f"trusted: expected positions in 0 to {len(y) - 1}, came {_listed(outside)}; "
            "count from 0 in the training set itself"
        )
    ordered = trusted.sort().values
    repeated = ordered[1:][ordered[1:] == ordered[:-1]].tolist()
    if repeated:
        raise ValueError(f"trusted: expected each position once, repeated {_listed(repeated)}; drop the repeats")
    present = set(y[trusted].tolist())
    missing = [c for c in range(num_classes) if c not in present]
    if missing:
        raise ValueError(
            f"trusted: expected every one of {num_classes} classes, missing {_listed(missing)}; add a sample of each"
        )


def _listed(numbers: list[int]) -> str:
    """The first few, and how many more."""
    more = f" and {len(numbers) - SHOWN} more" if len(numbers) > SHOWN else ""
    return ", ".join(map(str, numbers[:SHOWN])) + more
