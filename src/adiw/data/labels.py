"""Checks of labels and row indices, shared by the two kinds of data set."""

import torch
from torch import Tensor

from adiw.data.errors import DataError


def check_rows(y: Tensor, rows: int) -> None:
    """Labels y must be (rows,) int64.

    >>> check_rows(torch.tensor([0, 1]), 2)
    """
    if not isinstance(y, Tensor):
        raise DataError(f"expected labels y as a tensor ({rows},) of int64, found {type(y).__name__}")
    if y.dtype != torch.int64 or y.shape != (rows,):
        raise DataError(
            f"expected labels y of shape ({rows},) and dtype int64, one per sample, "
            f"found {tuple(y.shape)} {y.dtype}; convert with y.long().flatten()"
        )


def check_range(y: Tensor, num_classes: int, where: str) -> None:
    """Labels y (n,) must lie in 0 .. num_classes - 1; `where` names the file or split in the error."""
    if len(y) == 0:
        raise DataError(f"{where}: expected samples, found none")
    low, high = int(y.min()), int(y.max())
    if low < 0 or high >= num_classes:
        wrong = high if high >= num_classes else low
        raise DataError(
            f"{where}: expected labels from 0 to {num_classes - 1}, found {wrong}; "
            "the file is damaged or belongs to another data set"
        )


def check_index(index: Tensor, rows: int) -> None:
    """Row numbers index (m,) int64 must lie in 0 .. rows - 1; negative numbers do not count from the end."""
    if not isinstance(index, Tensor):
        raise DataError(f"expected an index as a tensor (m,) of int64, found {type(index).__name__}")
    if index.dtype != torch.int64 or index.dim() != 1:
        raise DataError(
            f"expected an index of shape (m,) and dtype int64, found {tuple(index.shape)} {index.dtype}; "
            "turn a mask into an index with mask.nonzero().flatten()"
        )
    if len(index) and (int(index.min()) < 0 or int(index.max()) >= rows):
        raise DataError(
            f"expected row numbers from 0 to {rows - 1}, "
            f"found {int(index.min())} to {int(index.max())}; index rows of this data set, not of another"
        )
