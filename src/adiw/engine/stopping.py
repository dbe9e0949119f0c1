"""A stop that is requested while a run trains: it takes effect between two steps, the same in all processes."""

from __future__ import annotations

import time
from collections.abc import Callable

from adiw.distributed.process_group import Processes

SECONDS = 1.0  # between two exchanges of several processes


class Stopped(Exception):  # noqa: N818 - a requested stop is not an error
    """A stop was requested. The last step is complete: the state can be saved."""


class StopCheck:
    """Raises ``Stopped`` once a stop is requested in any process.

    Several processes exchange their requests about once a second, after the same steps; other steps cost nothing.

    Args:
        requested: whether a stop is requested in this process.
        processes: those that train together.
    """

    def __init__(self, requested: Callable[[], bool], processes: Processes) -> None:
        self.requested, self.processes = requested, processes
        self.interval = self.steps_left = 1  # steps between two exchanges
        self.exchanged = time.monotonic()

    def after_step(self) -> None:
        """Raise if a stop is requested in any process. All processes call this after each of their steps."""
        if self.processes.size == 1:
            self.in_one_process()
            return
        self.steps_left -= 1
        if self.steps_left == 0 and self._exchange():
            raise Stopped

    def in_one_process(self) -> None:
        """Raise if a stop is requested, unless there are several processes, which stop after a step alone."""
        if self.processes.size == 1 and self.requested():
            raise Stopped

    def _exchange(self) -> bool:
        answers = self.processes.gather_object((self.requested(), time.monotonic() - self.exchanged))
        self.interval = next_interval(self.interval, max(seconds for _, seconds in answers))
        self.steps_left, self.exchanged = self.interval, time.monotonic()
        return any(requested for requested, _ in answers)


def next_interval(steps: int, seconds: float) -> int:
    """The number of steps that take ``SECONDS``, if the last ``steps`` took ``seconds``; at most twice as many.

    >>> next_interval(8, seconds=0.01), next_interval(8, seconds=2.0), next_interval(8, seconds=60.0)
    (16, 4, 1)
    """
    return max(1, min(2 * steps, int(steps * SECONDS / max(seconds, 1e-9))))


def at_intervals(check: Callable[[], bool], seconds: float = 0.25) -> Callable[[], bool]:
    """``check``, called at most every ``seconds``, as it may read another machine's files. Once true, it stays true.

    >>> check = at_intervals(lambda: print("checked") or True, seconds=60)
    >>> check(), check()
    checked
    (True, True)
    """
    answer, checked = False, float("-inf")

    def checked_at_intervals() -> bool:
        nonlocal answer, checked
        now = time.monotonic()
        if not answer and now - checked >= seconds:
            answer, checked = check(), now
        return answer

    return checked_at_intervals
