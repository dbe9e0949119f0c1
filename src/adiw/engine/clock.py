"""Seconds that work took, on the device that it was done on, without waiting for it."""

from __future__ import annotations

import time

import torch


class Stopwatch:
    """Start, stop, and later ask. On a GPU the clock is the stream's own: work is timed where it is queued.

    >>> watch = Stopwatch(torch.device("cpu"))
    >>> watch.start(), watch.stop(), watch.seconds() >= 0
    (None, None, True)
    """

    def __init__(self, device: torch.device) -> None:
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if device.type == "cuda" else []
        self.times = [0.0, 0.0]

    def start(self) -> None:
        self._mark(0)

    def stop(self) -> None:
        self._mark(1)

    def seconds(self) -> float:
        """Between start and stop; on a GPU this waits until the work is done."""
        if not self.events:
            return self.times[1] - self.times[0]
        begun, ended = self.events
        ended.synchronize()
        return float(begun.elapsed_time(ended)) / 1000

    def _mark(self, which: int) -> None:
        if self.events:
            self.events[which].record()
        else:
            self.times[which] = time.perf_counter()
