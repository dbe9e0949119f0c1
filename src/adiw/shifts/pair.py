"""Pair label noise."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from adiw.shifts.label_noise import check_rate, flip_labels
from adiw.shifts.labels import check_labels
from adiw.shifts.shifted import Shifted
from adiw.shifts.trusted import draw_trusted, trusted_count

__all__ = ["Pair"]


@dataclass(frozen=True)
class Pair:
    """Each label flips with probability ``rate`` to the next class.

        P(y' = (y + 1) mod C | y) = rate.

    Trusted: 1000 by default, uniform over the training set. Shapes: see ``Shifted``.

    >>> y = torch.tensor([0, 1, 2, 0, 1, 2])
    >>> Pair(0.9).apply(None, y, 3, 0, torch.Generator().manual_seed(0)).y
    tensor([1, 2, 0, 1, 2, 0])
    """

    rate: float

    def __post_init__(self) -> None:
        check_rate(self.rate)

    def apply(
        self, x: Tensor | None, y: Tensor, num_classes: int, trusted: int | None, generator: torch.Generator
    ) -> Shifted:
        """Flip labels; ``x`` is not looked at."""
        check_labels(y, num_classes)
        index = draw_trusted(y, trusted_count(trusted, len(y)), generator)
        return flip_labels(y, (y + 1) % num_classes, self.rate, index, generator)
