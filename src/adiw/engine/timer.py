"""Seconds of work on a CPU or a GPU, measured without waiting for the device."""

from __future__ import annotations

import time

import torch


class DeviceTimer:
    """Time between ``start`` and ``stop``. On a GPU it uses CUDA events, which do not synchronise.

    >>> timer = DeviceTimer(torch.device("cpu"))
    >>> timer.start(), timer.stop(), timer.seconds() >= 0
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
        """Seconds between start and stop; on a GPU this waits for the work to finish."""
        if not self.events:
            return self.times[1] - self.times[0]
        start, stop = self.events
        stop.synchronize()
        return float(start.elapsed_time(stop)) / 1000

    def _mark(self, which: int) -> None:
        if self.events:
            self.events[which].record()
        else:
            self.times[which] = time.perf_counter()
