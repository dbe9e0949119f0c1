"""Labels that a shift accepts."""

from __future__ import annotations

import torch
from torch import Tensor

from adiw.arguments import is_count

__all__ = ["check_labels", "class_counts"]


def check_labels(y: Tensor, num_classes: int) -> None:
    """Refuse labels that are not ``(n,)`` int64 in 0 to ``num_classes - 1``, or are none at all.

    >>> check_labels(torch.tensor([0, 3]), num_classes=3)
    Traceback (most recent call last):
    ValueError: labels: expected 0 to 2 (num_classes=3), came 0 to 3; renumber them or raise num_classes
    """
    if not is_count(num_classes, least=2):
        raise ValueError(f"num_classes: expected at least 2, came {num_classes}; a shift is between classes")
    if not isinstance(y, Tensor):
        raise TypeError(f"labels: expected a (n,) int64 tensor, came {type(y).__name__}; torch.as_tensor makes one")
    if y.ndim != 1 or y.dtype != torch.int64 or len(y) == 0:
        raise ValueError(
            f"labels: expected a non-empty (n,) int64 tensor, came {tuple(y.shape)} {y.dtype}; "
            "pass class numbers, e.g. y.flatten().long()"
        )
    low, high = int(y.min()), int(y.max())
    if low < 0 or high >= num_classes:
        raise ValueError(
            f"labels: expected 0 to {num_classes - 1} (num_classes={num_classes}), came {low} to {high}; "
            "renumber them or raise num_classes"
        )


def class_counts(y: Tensor, num_classes: int) -> list[int]:
    """Samples of each class: n_c = #{i : y_i = c}, a list of ``num_classes`` integers.

    >>> class_counts(torch.tensor([0, 2, 2]), num_classes=3)
    [1, 0, 2]
    """
    counts: list[int] = torch.bincount(y, minlength=num_classes).tolist()
    return counts
