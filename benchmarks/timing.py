"""Time cases alternately (A B C A B C ...), so that disturbances affect all alike, and take ratios within a round."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from adiw.engine.timer import DeviceTimer
from record import first_line

Timer = Callable[[int], float]  # number of repetitions -> seconds of one


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    rounds: how often each case is timed.
    times: repetitions of a case in all rounds together.
    limit: seconds of a case in all rounds together; slow cases have fewer repetitions.
    least: repetitions in a round, however slow they are.

    With ``times`` of zero the timers choose the repetitions themselves.
    """

    rounds: int = 5
    times: int = 100
    limit: float = 2.0
    least: int = 1

    def per_round(self, seconds: float) -> int:
        """Repetitions in a round of a case that takes ``seconds``.

        >>> Plan(5, 100, 2.0).per_round(0.001), Plan(5, 100, 2.0).per_round(0.1), Plan(5, 100, 2.0).per_round(9.0)
        (20, 4, 1)
        """
        wanted, fits = math.ceil(self.times / self.rounds), int(self.limit / self.rounds / max(seconds, 1e-9))
        return max(self.least, min(wanted, fits))


QUICK = Plan(rounds=3, times=100, limit=0.8)


@dataclass
class Timed:
    """Seconds of one case in each round, or its error."""

    seconds: list[float] = field(default_factory=list)
    per_round: int = 0
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
    """Time every case once in every round. A case that fails is skipped from then on.

    Args:
        deadline: in terms of ``time.monotonic``: only the first round starts after it.
    """
    timed = {name: Timed() for name in timers}
    first = -1 if plan.times else 0  # an extra first round measures how long the cases take
    for number in range(first, plan.rounds):
        if number > 0 and time.monotonic() > deadline:
            break
        for name, timer in timers.items():
            case = timed[name]
            if case.error is not None:
                continue
            try:
                seconds = timer(max(case.per_round, 1))
            except Exception as error:
                case.error = first_line(error)
                continue
            if number < 0:
                case.per_round = plan.per_round(seconds)
            else:
                case.seconds.append(seconds)
    return timed


def repeated(step: Callable[[], object], device: torch.device) -> Timer:
    """A timer of ``step``; on a GPU it uses CUDA events."""
    device_timer = DeviceTimer(device)

    def timer(times: int) -> float:
        step()  # not timed: caches and clock rates recover from the other cases
        device_timer.start()
        for _ in range(times):
            step()
        device_timer.stop()
        return device_timer.seconds() / times

    return timer
