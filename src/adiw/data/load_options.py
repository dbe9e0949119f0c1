"""What the loaders share: their options, digests of files, a train/test split."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

import torch
from torch import Tensor

from adiw.data.dataset import Data
from adiw.data.errors import DataError


@dataclass(frozen=True)
class Options:
    """Settings of a loader; each data set takes some of them and refuses the others.

    path: the user's own folder or file;  target: label column;  group: column that names groups of rows;
    size: side of decoded images;
    seed: of the train/test split;  verify: compare files with their published digests;
    broken: what to do with images that cannot be decoded, "refuse" or "skip".
    """

    path: Path | None = None
    target: str | None = None
    group: str | None = None
    size: int = 224
    seed: int = 0
    verify: bool = True
    broken: str = "refuse"

    def only(self, name: str, *taken: str) -> None:
        """Raise for an option that the data set ``name`` does not take."""
        changed = [f.name for f in fields(self) if getattr(self, f.name) != f.default]
        unknown = [option for option in changed if option not in taken]
        if unknown:
            raise DataError(f"{name} does not take {', '.join(unknown)}; it takes {', '.join(taken) or 'no options'}")

    def require_path(self, name: str, what: str) -> Path:
        """The path; an error describes what it must point to."""
        if self.path is None:
            raise DataError(f"{name} needs a path: {what}")
        try:
            found = self.path.exists()
        except OSError as error:  # the name is too long, or a parent folder is not readable
            raise DataError(f"{name}: {str(self.path)[:100]} cannot be read ({error.strerror})") from error
        if not found:
            raise DataError(f"{name}: {self.path} does not exist; expected {what}")
        return self.path


Loader = Callable[[Path, Options], Data]
"""Reads one data set: called with the folder that holds the data sets, and the options."""


def data_root() -> Path:
    """The folder that holds the data sets: $ADIW_DATA, or ./data when it is not set."""
    return Path(os.environ.get("ADIW_DATA") or "data")


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


def stratified_split(y: Tensor, test_rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """Row numbers (n - m,) for training and (m,) for testing, both ascending; y: (n,) int64.

    The test rows have the class proportions of y (largest remainder). Every class keeps at least one
    training row, so m < test_rows when some classes are very rare.

    >>> train, test = stratified_split(torch.tensor([0, 0, 0, 0, 1, 1]), test_rows=3, seed=0)
    >>> len(train), torch.tensor([0, 0, 0, 0, 1, 1])[test].tolist()
    (3, [0, 0, 1])
    """
    counts = torch.bincount(y)
    quota = counts.double() * test_rows / len(y)
    take = quota.floor().long()
    leftover = test_rows - int(take.sum())
    take[torch.argsort(quota - take, descending=True, stable=True)[:leftover]] += 1
    take = take.minimum(counts - 1).clamp(min=0)
    if int(take.sum()) == 0:
        raise DataError(
            f"expected enough rows to split off a test set, found {len(y)} rows in {len(counts)} classes; "
            "give more rows per class, or separate train and test files"
        )
    in_test = torch.zeros(len(y), dtype=torch.bool)
    generator = torch.Generator().manual_seed(seed)
    for label, test_count in enumerate(take.tolist()):
        rows = (y == label).nonzero().flatten()
        in_test[rows[torch.randperm(len(rows), generator=generator)[:test_count]]] = True
    return (~in_test).nonzero().flatten(), in_test.nonzero().flatten()
