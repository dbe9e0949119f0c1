"""How many runs share a process and its GPU: a given number, or the one with the highest throughput."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch

from adiw.experiments.run import no_log

GAIN = 1.05  # least rise of the throughput for one more run
WARM_UP = 2  # rounds of a new run that are not measured: it loads data, compiles and captures
ROUNDS, SECONDS = 3, 2.0  # least length of a measurement


class Width:
    """At most ``limit`` runs share the process."""

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def end_round(self, rounds: Sequence[int]) -> None:
        """Called when each run has advanced by an epoch, with the rounds of each run so far."""


class Ramp(Width):
    """One more run as long as that raises the throughput: ``limit`` starts at one and ends at the best number.

    The throughput is the number of epochs per second, of all runs together.

    Args:
        has_room: whether the device has memory for one more than this number of runs.
        log: gets a line with the number that was found.
        clock: the time in seconds.
    """

    def __init__(
        self,
        has_room: Callable[[int], bool],
        log: Callable[[str], None] = no_log,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        super().__init__(1)
        self.has_room, self.log, self.clock = has_room, log, clock
        self.best, self.settled = 0.0, False
        self.begun, self.measured = clock(), 0

    def end_round(self, rounds: Sequence[int]) -> None:
        if self.settled:
            return
        now = self.clock()
        if len(rounds) < self.limit or min(rounds) <= WARM_UP:
            self.begun, self.measured = now, 0
            return
        self.measured += 1
        if self.measured >= ROUNDS and now - self.begun >= SECONDS:
            self._decide(self.limit * self.measured / (now - self.begun))

    def _decide(self, throughput: float) -> None:
        rises = throughput >= GAIN * self.best
        self.best = max(self.best, throughput)
        self.settled = not (rises and self.has_room(self.limit))
        if not self.settled:
            self.limit += 1
            return
        self.limit -= not rises
        self.log(f"{self.limit} runs side by side have the highest throughput ({self.best:.3g} epochs per second)")


def has_memory_for_one_more(device: torch.device, runs: int) -> bool:
    """Whether the free memory of a GPU is well above the share of each of these runs."""
    free, _ = torch.cuda.mem_get_info(device)
    return free > 1.5 * torch.cuda.memory_reserved(device) / runs
