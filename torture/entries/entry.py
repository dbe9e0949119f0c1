"""A call with valid arguments, and replacements for each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch

from torture import values
from torture.verdict import finite

Make = Callable[[Random], Any]


@dataclass(frozen=True)
class Entry:
    """A call, its valid arguments, and a function for each that draws a replacement."""

    name: str
    call: Callable[..., Any]
    good: Callable[[], dict[str, Any]]
    bad: dict[str, Make]
    defined: Callable[[Any], str | None] = finite
    share: float = field(default=1.0, compare=False)  # how often it is tried, relative to the others

    def change(self, random: Random) -> dict[str, Any]:
        """Draw replacements for one or two of the valid arguments."""
        names = random.sample(list(self.bad), min(len(self.bad), random.choice((1, 1, 2))))
        return {name: self.bad[name](random) for name in names}


def pick(pool: tuple[Any, ...]) -> Make:
    return lambda random: random.choice(pool)


NUMBER, COUNT, NAME, THING = pick(values.NUMBERS), pick(values.COUNTS), pick(values.NAMES), pick(values.ANYTHING)


def of_default(default: Any) -> Make:
    """Replacements for an argument with this default."""
    if isinstance(default, bool):
        return THING
    if isinstance(default, int):
        return COUNT
    return NUMBER if isinstance(default, float) or default is None else pick((*values.NUMBERS, *values.NAMES))


SETS: tuple[Any, ...] = (*values.ANYTHING, 3, [], [1, 2], [(torch.zeros(2), 1)], range(3), iter([1]), torch.zeros(3))
GENERATORS: tuple[Any, ...] = (0, 3.5, *values.ANYTHING)
