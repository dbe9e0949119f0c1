"""Side by side: A B C A B C ..., so that what disturbs the machine disturbs all alike, and ratios within a round."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from adiw.engine.timer import DeviceTimer
from record import first_line

Timer = Callable[[int], float]  # how many times -> seconds for each of them


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    rounds: how often each case has its turn.
    times: how often a case is run in all its turns together, at least, ...
    limit: ... unless that takes longer than this many seconds; then as often as fits, ...
    least: ... this often in a turn at least.

    With ``times`` of zero the timers choose for themselves how often they run in a turn.
    """

    rounds: int = 5
    times: int = 100
    limit: float = 2.0
    least: int = 1

    def each_turn(self, seconds: float) -> int:
        """Runs in a turn of a case that takes ``seconds`` for each.

        >>> Plan(5, 100, 2.0).each_turn(0.001), Plan(5, 100, 2.0).each_turn(0.1), Plan(5, 100, 2.0).each_turn(9.0)
        (20, 4, 1)
        """
        wanted, fits = math.ceil(self.times / self.rounds), int(self.limit / self.rounds / max(seconds, 1e-9))
        return max(self.least, min(wanted, fits))


QUICK = Plan(rounds=3, times=100, limit=0.8)


@dataclass
class Timed:
    """Seconds of one case in each round, and how it ended."""

    seconds: list[float] = field(default_factory=list)
    each_turn: int = 0
    error: str | None = None

    @property
    def median(self) -> float | None:
        return statistics.median(self.seconds) if self.seconds and self.error is None else None

    def over(self, other: Timed) -> float | None:
        """The median over the rounds of this case's time divided by the other's in the same round."""
        if self.median is None or other.median is None:
            return None
        return statistics.median(a / b for a, b in zip(self.seconds, other.seconds, strict=False))


def interleave(timers: Mapping[str, Timer], plan: Plan, deadline: float = math.inf) -> dict[str, Timed]:
    """Every case once in every round. A case that fails is left out from there on, the others go on.

    Args:
        deadline: of ``time.monotonic``: no round begins after it, except the first.
    """
    timed = {name: Timed() for name in timers}
    first = -1 if plan.times else 0  # a round before the first finds out how long the cases take
    for number in range(first, plan.rounds):
        if number > 0 and time.monotonic() > deadline:
            break
        for name, timer in timers.items():
            case = timed[name]
            if case.error is not None:
                continue
            try:
                seconds = timer(max(case.each_turn, 1))
            except Exception as error:
                case.error = first_line(error)
                continue
            if number < 0:
                case.each_turn = plan.each_turn(seconds)
            else:
                case.seconds.append(seconds)
    return timed


def repeated(step: Callable[[], object], device: torch.device) -> Timer:
    """A timer of ``step``; on a GPU by the stream's own clock."""
    watch = DeviceTimer(device)

    def timer(times: int) -> float:
        step()  # not counted: what other cases did to caches and clocks
        watch.start()
        for _ in range(times):
            step()
        watch.stop()
        return watch.seconds() / times

    return timer
