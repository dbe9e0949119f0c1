"""Progress of work that may take longer than two seconds: what is done, how much so far, and of how many."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

OnProgress = Callable[[str, int, int], None]  # such as ("evaluating, sample", 256, 460)


T = TypeVar("T")


def silent(what: str, done: int, total: int) -> None:
    """Report nothing."""


def counted(progress: OnProgress, what: str, total: int) -> Callable[[], None]:
    """A function to call after each of ``total`` parts of the work.

    >>> after_step = counted(print, "quick model, step", 2)
    >>> after_step(); after_step()
    quick model, step 1 2
    quick model, step 2 2
    """
    done = 0

    def after_part() -> None:
        nonlocal done
        done += 1
        progress(what, done, total)

    return after_part


def each(items: Sequence[T], progress: OnProgress, what: str) -> Iterator[T]:
    """The items; their number is reported after each.

    >>> list(each("ab", print, "letter"))
    letter 1 2
    letter 2 2
    ['a', 'b']
    """
    after_item = counted(progress, what, len(items))
    for item in items:
        yield item
        after_item()


def lines_every(seconds: float, tell: Callable[[str], None]) -> Callable[[str], None]:
    """``tell``, which gets the first line after so many seconds, and then one at most every so many."""
    told = time.monotonic()

    def tell_in_time(text: str) -> None:
        nonlocal told
        if time.monotonic() - told >= seconds:
            told = time.monotonic()
            tell(text)

    return tell_in_time


def at_most_every(seconds: float, tell: Callable[[str], None]) -> OnProgress:
    """Give ``tell`` a line of text about the work, see ``lines_every``.

    >>> at_most_every(0, print)("evaluating, sample", 2560, 4600)
    evaluating, sample 2,560 of 4,600
    """
    tell = lines_every(seconds, tell)
    return lambda what, done, total: tell(f"{what} {done:,} of {total:,}")
