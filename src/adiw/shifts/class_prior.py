"""Class-prior shift: some classes are rarer in training than in the test data."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from adiw.shifts.shift import Shifted, check_labels, class_counts
from adiw.shifts.trusted import draw_per_class, trusted_count

TRUSTED_PER_CLASS = 10


@dataclass(frozen=True)
class ClassPrior:
    """A random fraction ``mu`` of the classes is cut to ``1 / rho`` of the size of the others.

    As in the paper (after Buda et al.), the classes of a group get equal sizes: a majority class has as many
    samples as the smallest class of the data, a minority class 1 / rho of that. With p_test the class
    proportions of the original labels and p_train those of the kept samples,

        w_i = r_y = p_test(y_i) / p_train(y_i),  mean exactly one.

    Trusted: 10 of each class by default; ``trusted`` is the total, divided equally among the classes. They are
    part of the kept samples. Shapes: see ``Shifted``.

    >>> y = torch.arange(400) % 4
    >>> shifted = ClassPrior(mu=0.25, rho=10).apply(None, y, 4, 8, torch.Generator().manual_seed(0))
    >>> sorted(shifted.y.bincount().tolist()), sorted(shifted.y[shifted.trusted].bincount().tolist())
    ([10, 100, 100, 100], [2, 2, 2, 2])
    """

    mu: float
    rho: float

    def __post_init__(self) -> None:
        if not 0 < self.mu < 1:
            raise ValueError(f"mu: expected 0 < mu < 1, got {self.mu}; 0.5 makes half of the classes rare")
        if not 1 <= self.rho < float("inf"):
            raise ValueError(f"rho: expected 1 <= rho, finite, got {self.rho}; 100 keeps one sample in a hundred")

    def apply(
        self, x: Tensor | None, y: Tensor, num_classes: int, trusted: int | None, generator: torch.Generator
    ) -> Shifted:
        """Cut the minority classes; ``x`` is not used."""
        check_labels(y, num_classes)
        counts = class_counts(y, num_classes)
        per_class = _per_class(trusted, num_classes, len(y))
        sizes = self._sizes(counts, per_class, generator)
        keep = draw_per_class(y, sizes, generator)
        labels = y[keep]
        pairs = zip(counts, sizes, strict=True)
        ratio = torch.tensor([(count / len(y)) / (size / len(keep)) for count, size in pairs])
        return Shifted(
            keep=keep,
            y=labels,
            true_y=labels.clone(),
            trusted=draw_per_class(labels, [per_class] * num_classes, generator),
            true_weights=ratio.to(y.device)[labels],
        )

    def _sizes(self, counts: list[int], per_class: int, generator: torch.Generator) -> list[int]:
        """The number of samples that each class keeps."""
        num_classes, majority = len(counts), min(counts)
        num_minority = round(self.mu * num_classes)
        if not 0 < num_minority < num_classes:
            raise ValueError(
                f"mu: expected at least one rare and one frequent class, got {num_minority} rare "
                f"of {num_classes} with mu={self.mu}; choose mu nearer to 0.5"
            )
        if majority == 0:
            empty = ", ".join(str(c) for c in range(num_classes) if counts[c] == 0)
            raise ValueError(f"labels: expected samples of every class, none of {empty}; lower num_classes")
        minority = round(majority / self.rho)
        if minority < max(1, per_class):
            raise ValueError(
                f"class-prior: expected at least {max(1, per_class)} samples left in a rare class ({per_class} "
                f"trusted in each), got {minority} = {majority} / {self.rho}; lower rho or trusted="
            )
        rare = torch.randperm(num_classes, generator=generator, device=generator.device)[:num_minority].tolist()
        return [minority if c in rare else majority for c in range(num_classes)]


def _per_class(trusted: int | None, num_classes: int, n: int) -> int:
    """Trusted samples of each class, from their total."""
    total = trusted_count(trusted, n, default=TRUSTED_PER_CLASS * num_classes)
    if total % num_classes:
        raise ValueError(
            f"trusted: expected a multiple of {num_classes} (the same number of each class), got {total}; "
            f"pass trusted={total - total % num_classes}"
        )
    return total // num_classes
