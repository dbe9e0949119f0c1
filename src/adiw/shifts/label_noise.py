"""Label noise: a share of the training labels is wrong, drawn uniformly (symmetric) or the next class (pair)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from adiw.shifts.shift import Shifted, check_labels
from adiw.shifts.trusted import draw_trusted, trusted_count


@dataclass(frozen=True)
class LabelNoise:
    """Each label flips with probability ``rate``; ``_distance`` says to which class. Trusted samples never flip.

    A training sample is clean with probability 1 - rate (1 - t/n), because t of the n are trusted. A wrong label has
    probability zero under the test distribution, so

        w_i = 1[clean] / (1 - rate (1 - t/n)).

    Trusted: 1000 by default, uniform over the training set. Shapes: see ``Shifted``.
    """

    rate: float

    def __post_init__(self) -> None:
        if not 0 <= self.rate < 1:
            raise ValueError(f"rate: expected 0 <= rate < 1, got {self.rate}; 0.4 flips four labels in ten")

    def apply(
        self, x: Tensor | None, y: Tensor, num_classes: int, trusted: int | None, generator: torch.Generator
    ) -> Shifted:
        """Flip labels; ``x`` is not used."""
        check_labels(y, num_classes)
        n = len(y)
        index = draw_trusted(y, trusted_count(trusted, n), generator)
        other = (y + self._distance(y, num_classes, generator)) % num_classes
        flip = (torch.rand(n, generator=generator, device=generator.device) < self.rate).to(y.device)
        flip[index] = False
        clean_share = 1 - self.rate * (1 - len(index) / n)
        return Shifted(
            keep=torch.arange(n, device=y.device),
            y=torch.where(flip, other, y),
            true_y=y.clone(),
            trusted=index,
            true_weights=(~flip).to(torch.float32) / clean_share,
        )

    def _distance(self, y: Tensor, num_classes: int, generator: torch.Generator) -> Tensor | int:
        """How many classes after its own a label flips to."""
        raise NotImplementedError


class Pair(LabelNoise):
    """Each label flips with probability ``rate`` to the next class.

        P(y' = (y + 1) mod C | y) = rate.

    >>> y = torch.tensor([0, 1, 2, 0, 1, 2])
    >>> Pair(0.9).apply(None, y, 3, 0, torch.Generator().manual_seed(0)).y
    tensor([1, 2, 0, 1, 2, 0])
    """

    def _distance(self, y: Tensor, num_classes: int, generator: torch.Generator) -> Tensor | int:
        return 1


class Symmetric(LabelNoise):
    """Each label flips with probability ``rate`` to another class, all equally likely.

        P(y' = c | y) = rate / (C - 1)  for c != y.

    >>> y = torch.arange(10_000) % 10
    >>> shifted = Symmetric(0.4).apply(None, y, 10, 0, torch.Generator().manual_seed(0))
    >>> abs(shifted.flipped.double().mean().item() - 0.4) < 0.02  # four standard deviations
    True
    """

    def _distance(self, y: Tensor, num_classes: int, generator: torch.Generator) -> Tensor | int:
        return torch.randint(1, num_classes, y.shape, generator=generator, device=generator.device).to(y.device)
