"""Covariate shift: p(x) changes and p(y | x) does not."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from adiw.shifts.biased_sampling import check_inputs, check_strength, importance, keep_probability, principal_score
from adiw.shifts.shift import Shifted, check_labels
from adiw.shifts.trusted import draw_trusted, trusted_count


@dataclass(frozen=True)
class Covariate:
    """Samples with a small first principal component are rarer in training, whatever their label.

    With s(x) the standardised first principal component of x,

        P(keep | x) = sigmoid(strength * s(x)), rescaled so that the largest is one;
        q(x) = t/n + (1 - t/n) P(keep | x),    w(x) = 1 / q(x), mean one over the kept samples.

    Trusted: 1000 by default, drawn uniformly *before* the biased sampling and always kept. q accounts
    for them exactly, and so bounds the weights. Shapes: see ``Shifted``.

    >>> x, y = torch.linspace(-1, 1, 1000)[:, None], torch.arange(1000) % 2
    >>> shifted = Covariate(2.0).apply(x, y, 2, 100, torch.Generator().manual_seed(0))
    >>> bool(x[shifted.keep].mean() > 0.2), round(shifted.true_weights.mean().item(), 4)
    (True, 1.0)
    """

    strength: float

    def __post_init__(self) -> None:
        check_strength(self.strength)

    def apply(
        self, x: Tensor | None, y: Tensor, num_classes: int, trusted: int | None, generator: torch.Generator
    ) -> Shifted:
        """Drop samples by their inputs."""
        check_labels(y, num_classes)
        inputs = check_inputs(x, y)
        index = draw_trusted(y, trusted_count(trusted, len(y)), generator)
        probability = keep_probability(principal_score(inputs, generator), self.strength).to(y.device)
        uniform = torch.rand(len(y), generator=generator, device=generator.device, dtype=torch.float64)
        kept = uniform.to(y.device) < probability
        kept[index] = True
        everything = Shifted(
            torch.arange(len(y), device=y.device), y, y, index, importance(probability, len(index), kept).float()
        )
        return everything.without((~kept).nonzero().flatten())
