"""What a shift is, what it returns, and the labels that it accepts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from adiw.argument_checks import is_count


@dataclass(frozen=True)
class Shifted:
    """A training set after a shift: the remaining samples, their labels and their true importance.

    Attributes:
        keep: ``(n',)`` int64, ascending: row numbers in the original training set of the samples that remain.
        y: ``(n',)`` int64, the labels that training uses.
        true_y: ``(n',)`` int64, the labels before the shift.
        trusted: ``(t,)`` int64, ascending: *positions in the shifted set* (0 to n'-1) of the samples that
            follow the test distribution. They keep their true labels and stay in the training set.
        true_weights: ``(n',)`` float32 importance p_test / p_train of each sample, mean about one; None when
            it is unknown.

    >>> y = torch.tensor([0, 1, 2])
    >>> none = torch.tensor([], dtype=torch.int64)
    >>> Shifted(torch.arange(3), torch.tensor([0, 2, 2]), y, none, None).flipped
    tensor([False,  True, False])
    """

    keep: Tensor
    y: Tensor
    true_y: Tensor
    trusted: Tensor
    true_weights: Tensor | None

    @property
    def flipped(self) -> Tensor:
        """``(n',)`` bool: the samples whose label the shift changed."""
        return self.y != self.true_y

    def without(self, positions: Tensor) -> Shifted:
        """The training set without the samples at these positions: ``(m,)`` int64.

        >>> y = torch.tensor([0, 1, 2])
        >>> shifted = Shifted(torch.arange(3), y, y, trusted=torch.tensor([1, 2]), true_weights=None)
        >>> shifted.without(torch.tensor([1])).trusted
        tensor([1])
        """
        stays = torch.ones(len(self.y), dtype=torch.bool, device=self.y.device)
        stays[positions] = False
        position = stays.cumsum(0) - 1  # of each sample that stays, in the new set
        return Shifted(
            keep=self.keep[stays],
            y=self.y[stays],
            true_y=self.true_y[stays],
            trusted=position[self.trusted[stays[self.trusted]]],
            true_weights=None if self.true_weights is None else self.true_weights[stays],
        )


class Shift(Protocol):
    """A way in which training data differ from test data: its parameters, and one method."""

    def apply(
        self,
        x: Tensor | None,
        y: Tensor,
        num_classes: int,
        trusted: int | None,
        generator: torch.Generator,
    ) -> Shifted:
        """Shift a training set that follows the test distribution.

        Args:
            x: ``(n, ...)`` inputs; None is enough for shifts that depend only on labels.
            y: ``(n,)`` int64 true labels in 0 to ``num_classes - 1``.
            num_classes: the number of classes.
            trusted: total number of trusted samples; None takes the shift's own default.
            generator: the only source of randomness.
        """
        ...


def check_labels(y: Tensor, num_classes: int) -> None:
    """Labels must be a non-empty ``(n,)`` int64 tensor with values in 0 to ``num_classes - 1``.

    >>> check_labels(torch.tensor([0, 3]), num_classes=3)
    Traceback (most recent call last):
    ValueError: labels: expected 0 to 2 (num_classes=3), got 0 to 3; renumber them or raise num_classes
    """
    if not is_count(num_classes, least=2):
        raise ValueError(f"num_classes: expected at least 2, got {num_classes}; a shift needs two classes or more")
    if not isinstance(y, Tensor):
        raise TypeError(f"labels: expected a (n,) int64 tensor, got {type(y).__name__}; convert with torch.as_tensor")
    if y.ndim != 1 or y.dtype != torch.int64 or len(y) == 0:
        raise ValueError(
            f"labels: expected a non-empty (n,) int64 tensor, got {tuple(y.shape)} {y.dtype}; "
            "pass class numbers, e.g. y.flatten().long()"
        )
    low, high = int(y.min()), int(y.max())
    if low < 0 or high >= num_classes:
        raise ValueError(
            f"labels: expected 0 to {num_classes - 1} (num_classes={num_classes}), got {low} to {high}; "
            "renumber them or raise num_classes"
        )


def class_counts(y: Tensor, num_classes: int) -> list[int]:
    """Samples of each class: n_c = #{i : y_i = c}, a list of ``num_classes`` integers."""
    counts: list[int] = torch.bincount(y, minlength=num_classes).tolist()
    return counts
