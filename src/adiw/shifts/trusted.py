"""The trusted samples, which follow the test distribution: drawn at random, or read from a file and checked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adiw.argument_checks import is_count
from adiw.shifts.shift import class_counts

DEFAULT_TRUSTED = 1000  # the paper's validation set, except for class-prior shift and ImageNet
SHOWN = 10  # numbers listed in an error


def trusted_count(trusted: int | None, n: int, default: int = DEFAULT_TRUSTED) -> int:
    """The number of trusted samples to draw from n: the given one, or the default.

    >>> trusted_count(None, 50)
    Traceback (most recent call last):
    ValueError: trusted: expected 0 to 50 (the size of the training set), got 1000, the default; pass trusted=
    """
    count = default if trusted is None else trusted
    if not is_count(count) or count > n:
        got = f"{count}, the default; pass trusted=" if trusted is None else f"{count}; pass fewer"
        raise ValueError(f"trusted: expected 0 to {n} (the size of the training set), got {got}")
    return count


def draw_trusted(y: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """``(count,)`` int64 indices into y, ascending: uniform without replacement.

    If the draw misses a class, which small draws do, it is repeated class by class in proportion to the class
    counts, provided that this gives at least one of each class.

    >>> draw_trusted(torch.tensor([0, 0, 0, 1, 1, 1]), 2, torch.Generator().manual_seed(0)) // 3
    tensor([0, 1])
    """
    order = torch.randperm(len(y), generator=generator, device=generator.device)
    drawn = order[:count].sort().values.to(y.device)
    counts = class_counts(y, int(y.max()) + 1)
    sizes = proportional(count, counts)
    classes = sum(map(bool, counts))
    if len(y[drawn].unique()) < classes == sum(map(bool, sizes)):
        return draw_per_class(y, sizes, generator)
    return drawn


def draw_per_class(y: Tensor, sizes: list[int], generator: torch.Generator) -> Tensor:
    """Indices into y, ascending: ``sizes[c]`` of class c, uniform without replacement within the class.

    >>> y = torch.tensor([0, 1, 0, 1, 1])
    >>> y[draw_per_class(y, [2, 1], torch.Generator().manual_seed(0))].sort().values
    tensor([0, 0, 1])
    """
    order = torch.randperm(len(y), generator=generator, device=generator.device).to(y.device)
    by_class = torch.split(order[y[order].argsort(stable=True)], class_counts(y, len(sizes)))
    drawn = [members[:size] for members, size in zip(by_class, sizes, strict=True)]
    return torch.cat(drawn).sort().values


def proportional(total: int, counts: list[int]) -> list[int]:
    """Split ``total`` over classes in proportion to their counts, by largest remainders.

    t_c is total * n_c / n rounded down or up, so that the t_c sum to total (which is at most n).

    >>> proportional(10, [50, 30, 21])
    [5, 3, 2]
    """
    n = sum(counts)
    sizes = [total * count // n for count in counts]
    by_remainder = sorted(range(len(counts)), key=lambda c: -(total * counts[c] % n))
    for c in by_remainder[: total - sum(sizes)]:
        sizes[c] += 1
    return sizes


def read_indices(path: str | os.PathLike[str]) -> Tensor:
    """``(t,)`` int64 indices from a text file (one per line, blank lines ignored) or a ``.npy`` array.

    Pickled arrays are refused. ``check_trusted`` compares the indices with the data.

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
    try:
        if file.suffix == ".npy":
            with file.open("rb") as stream:  # numpy.load would also open archives
                array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
        else:
            array = np.array(file.read_text("utf-8").split(), np.int64)
    except (ValueError, EOFError, MemoryError, OverflowError) as error:  # bytes that are not UTF-8 are a ValueError
        raise ValueError(f"{file}: expected one integer per line, or an array of numpy.save ({error})") from error
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"{file}: expected a (t,) array of integers, got {array.shape} {array.dtype}; "
            "convert a mask with numpy.flatnonzero"
        )
    return torch.from_numpy(array.astype(np.int64))


def check_trusted(trusted: Tensor, y: Tensor, num_classes: int) -> None:
    """Refuse positions that are out of range or repeated, and a trusted set that lacks a class.

    Args:
        trusted: ``(t,)`` int64 positions in the training set.
        y: ``(n,)`` int64 labels of the training set.

    >>> check_trusted(torch.tensor([0, 1]), y=torch.tensor([0, 2, 1, 3]), num_classes=4)
    Traceback (most recent call last):
    ValueError: trusted: expected every one of 4 classes, missing 1, 3; add a sample of each
    """
    if trusted.ndim != 1 or trusted.dtype != torch.int64:
        raise ValueError(
            f"trusted: expected (t,) int64 positions, got {tuple(trusted.shape)} {trusted.dtype}; "
            "convert a mask with mask.nonzero().flatten()"
        )
    outside = trusted[(trusted < 0) | (trusted >= len(y))].tolist()
    if outside:
        raise ValueError(
            f"trusted: expected positions in 0 to {len(y) - 1}, got {_listed(outside)}; "
            "count the rows of the training set from 0"
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
    """The first numbers, and the count of the others."""
    more = f" and {len(numbers) - SHOWN} more" if len(numbers) > SHOWN else ""
    return ", ".join(map(str, numbers[:SHOWN])) + more
