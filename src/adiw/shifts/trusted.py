"""Drawing the trusted samples: the few that follow the test distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from adiw.arguments import is_count
from adiw.shifts.labels import class_counts

__all__ = ["DEFAULT_TRUSTED", "draw_per_class", "draw_trusted", "proportional", "trusted_count"]

DEFAULT_TRUSTED = 1000  # the paper's validation set, except for class-prior shift and ImageNet


def trusted_count(trusted: int | None, n: int, default: int = DEFAULT_TRUSTED) -> int:
    """How many trusted samples to draw out of n: what was asked, or the default.

    >>> trusted_count(None, 50)
    Traceback (most recent call last):
    ValueError: trusted: expected 0 to 50 (the size of the training set), came 1000, the default; pass one
    """
    count = default if trusted is None else trusted
    if not is_count(count) or count > n:
        came = f"{count}, the default; pass one" if trusted is None else f"{count}; ask for fewer"
        raise ValueError(f"trusted: expected 0 to {n} (the size of the training set), came {came}")
    return count


def draw_trusted(y: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """``(count,)`` int64 indices into y, ascending: uniform without replacement.

    A draw that misses a class, as a small one does, is made again class by class, in proportion to their counts, if
    that gives some of each: ten of ten equal classes are one of each.

    >>> draw_trusted(torch.tensor([0, 0, 0, 1, 1, 1]), 2, torch.Generator().manual_seed(0)) // 3
    tensor([0, 1])
    """
    order = torch.randperm(len(y), generator=generator, device=generator.device)
    drawn = order[:count].sort().values.to(y.device)
    counts = class_counts(y, int(y.max()) + 1)
    sizes = proportional(count, counts)
    classes = sum(map(bool, counts))
    if len(y[drawn].unique()) < classes == sum(map(bool, sizes)):
        return draw_per_class(y, sizes, generator)
    return drawn


def draw_per_class(y: Tensor, sizes: list[int], generator: torch.Generator) -> Tensor:
    """Indices into y, ascending: ``sizes[c]`` of class c, uniform without replacement within the class.

    >>> y = torch.tensor([0, 1, 0, 1, 1])
    >>> y[draw_per_class(y, [2, 1], torch.Generator().manual_seed(0))].sort().values
    tensor([0, 0, 1])
    """
    order = torch.randperm(len(y), generator=generator, device=generator.device).to(y.device)
    by_class = torch.split(order[y[order].argsort(stable=True)], class_counts(y, len(sizes)))
    drawn = [members[:size] for members, size in zip(by_class, sizes, strict=True)]
    return torch.cat(drawn).sort().values


def proportional(total: int, counts: list[int]) -> list[int]:
    """Split ``total`` over classes in proportion to their counts, by largest remainders.

    t_c is total * n_c / n rounded down or up, so that the t_c sum to total (which is at most n).

    >>> proportional(10, [50, 30, 21])
    [5, 3, 2]
    """
    n = sum(counts)
    sizes = [total * count // n for count in counts]
    by_remainder = sorted(range(len(counts)), key=lambda c: -(total * counts[c] % n))
    for c in by_remainder[: total - sum(sizes)]:
        sizes[c] += 1
    return sizes
