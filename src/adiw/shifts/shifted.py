"""What a shift returns, and what a shift is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

__all__ = ["Shift", "Shifted", "select"]


@dataclass(frozen=True)
class Shifted:
    """A training set after a shift: which samples remain, under which labels, with which true importance.

    Attributes:
        keep: ``(n',)`` int64, ascending: the samples of the original training set that remain.
        y: ``(n',)`` int64, the labels as training sees them.
        true_y: ``(n',)`` int64, the labels before the shift.
        trusted: ``(t,)`` int64, ascending: *positions in the shifted set* (0 to n'-1) of the samples that
            follow the test distribution. They keep their true labels and stay in the training set.
        true_weights: ``(n',)`` float32 importance p_test / p_train of each sample, mean about one; None when
            nobody knows it.

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


class Shift(Protocol):
    """One way in which training data differ from test data: parameters, and one method."""

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
            x: ``(n, ...)`` inputs; None is enough for shifts that look only at labels.
            y: ``(n,)`` int64 true labels in 0 to ``num_classes - 1``.
            num_classes: how many classes there are.
            trusted: how many trusted samples in all; None takes the shift's own default.
            generator: the only source of randomness.
        """
        ...


def select(y: Tensor, kept: Tensor, trusted: Tensor, weights: Tensor) -> Shifted:
    """Keep some samples, labels untouched; weights are given for every sample of the original set.

    Args:
        y: ``(n,)`` int64.  kept: ``(n,)`` bool.  weights: ``(n,)`` importance of every original sample.
        trusted: ``(t,)`` int64 indices into the original set, ascending, all of them kept.

    >>> kept = torch.tensor([True, False, True, True])
    >>> shifted = select(torch.tensor([3, 3, 4, 5]), kept, torch.tensor([2]), torch.ones(4))
    >>> shifted.keep, shifted.y, shifted.trusted
    (tensor([0, 2, 3]), tensor([3, 4, 5]), tensor([1]))
    """
    keep = kept.nonzero().flatten()
    labels = y[keep]
    return Shifted(
        keep=keep,
        y=labels,
        true_y=labels.clone(),
        trusted=torch.searchsorted(keep, trusted),
        true_weights=weights[keep].to(torch.float32),
    )
