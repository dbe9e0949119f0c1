"""Class-conditional shift: p(x | y) changes and p(y) does not."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from adiw.shifts.biased_sampling import (
    check_inputs,
    check_strength,
    importance,
    keep_probability,
    principal_score,
    systematic,
)
from adiw.shifts.shift import Shifted, check_labels, class_counts
from adiw.shifts.trusted import draw_per_class, proportional, trusted_count


@dataclass(frozen=True)
class ClassConditional:
    """Within each class, samples with a small first principal component are rarer in training.

    Every class loses the same fraction. With s_y(x) the standardised first principal component within the class and
    a = sigmoid(strength * s_y) / max sigmoid(strength * s_y), with means over the untrusted samples of the class,

        P(keep | x, y) = f a(x) / mean(a),    f = min_y mean(a), the largest share that every class can keep;
        q(x, y) = t_y/n_y + (1 - t_y/n_y) P(keep | x, y),    w = 1 / q, mean one over each class.

    Trusted: 1000 by default, drawn before the biased sampling, uniformly within each class and in proportion
    to its size, and always kept. Systematic sampling fixes the class sizes up to two samples. The only
    approximation: mean(a) excludes the trusted samples, an error of order sqrt(t_y) / n_y. Shapes: see ``Shifted``.

    >>> x, y = torch.linspace(-1, 1, 1000)[:, None], torch.arange(1000) % 2
    >>> shifted = ClassConditional(2.0).apply(x, y, 2, 100, torch.Generator().manual_seed(0))
    >>> bool(x[shifted.keep].mean() > 0.2), shifted.y.bincount()
    (True, tensor([282, 282]))
    """

    strength: float

    def __post_init__(self) -> None:
        check_strength(self.strength)

    def apply(
        self, x: Tensor | None, y: Tensor, num_classes: int, trusted: int | None, generator: torch.Generator
    ) -> Shifted:
        """Drop samples of each class by their inputs."""
        check_labels(y, num_classes)
        inputs = check_inputs(x, y)
        counts = class_counts(y, num_classes)
        index = draw_per_class(y, proportional(trusted_count(trusted, len(y)), counts), generator)
        kept = torch.zeros(len(y), dtype=torch.bool, device=y.device)
        kept[index] = True
        classes = [(y == c).nonzero().flatten() for c in range(num_classes) if counts[c]]
        probabilities = self._probabilities(inputs, classes, kept, generator)
        weights = torch.ones(len(y), dtype=torch.float64, device=y.device)
        for members, probability in zip(classes, probabilities, strict=True):
            trusted_here = kept[members]
            drawn = trusted_here.clone()
            drawn[~trusted_here] = systematic(probability[~trusted_here], generator)
            kept[members] = drawn
            weights[members] = importance(probability, int(trusted_here.sum()), drawn)
        everything = Shifted(torch.arange(len(y), device=y.device), y, y, index, weights.float())
        return everything.without((~kept).nonzero().flatten())

    def _probabilities(
        self, x: Tensor, classes: list[Tensor], trusted: Tensor, generator: torch.Generator
    ) -> list[Tensor]:
        """P(keep | x, y) of each class's samples; its mean over those that are not trusted is f in every class."""
        bias = [
            keep_probability(principal_score(x[m.to(x.device)], generator), self.strength).to(m.device)
            for m in classes
        ]
        # A class in which all samples are trusted loses none: its mean is that of all its samples.
        rest = [a if trusted[m].all() else a[~trusted[m]] for a, m in zip(bias, classes, strict=True)]
        means = [float(a.mean()) for a in rest]
        return [min(means) * a / mean for a, mean in zip(bias, means, strict=True)]
