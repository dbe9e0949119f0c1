"""Symmetric label noise."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from adiw.shifts.label_noise import check_rate, flip_labels
from adiw.shifts.labels import check_labels
from adiw.shifts.shifted import Shifted
from adiw.shifts.trusted import draw_trusted, trusted_count

__all__ = ["Symmetric"]


@dataclass(frozen=True)
class Symmetric:
    """Each label flips with probability ``rate`` to one of the other C - 1 classes, all equally likely.

        P(y' = c | y) = rate / (C - 1)  for c != y.

    Trusted: 1000 by default, uniform over the training set. Shapes: see ``Shifted``.

    >>> y = torch.arange(10_000) % 10
    >>> shifted = Symmetric(0.4).apply(None, y, 10, 0, torch.Generator().manual_seed(0))
    >>> abs(shifted.flipped.double().mean().item() - 0.4) < 0.02  # four standard deviations
    True
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
        step = torch.randint(1, num_classes, y.shape, generator=generator, device=generator.device)
        other = (y + step.to(y.device)) % num_classes
        return flip_labels(y, other, self.rate, index, generator)
