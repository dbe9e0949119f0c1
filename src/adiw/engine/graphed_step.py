"""The training step as a CUDA graph: it is captured once and then replayed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Generator

from adiw.distributed.process_group import is_initialized
from adiw.reweighting.cuda_graphs import WARM_UP, MemoryPool, NotCaptured, capture


class Captured:
    """Calls ``work`` eagerly at first, then captures it as a CUDA graph and replays that.

    Work that cannot be captured stays eager, and ``log`` is called once with the reason.

    Args:
        work: takes and returns nothing; it reads and writes the same tensors in every call.
        log: called with a line of text if the capture fails.
        generators: returns the random generators that the work uses, apart from PyTorch's default one.
        pool: memory shared with other graphs; None for separate memory.
        name: the name of the work in that line, a plural.
        undo: resets what a failed capture changed on the host; the work then runs again, eagerly.
        outdated: called before each replay; true if the work does something else now and is to be captured again.
    """

    def __init__(
        self,
        work: Callable[[], None],
        log: Callable[[str], None],
        generators: Callable[[], Iterable[Generator]] = tuple,
        pool: MemoryPool | None = None,
        name: str = "steps",
        undo: Callable[[], None] = lambda: None,
        outdated: Callable[[], bool] = lambda: False,
    ) -> None:
        self.work, self.log, self.generators, self.name, self.undo = work, log, generators, name, undo
        self.outdated = outdated
        self.pool = pool
        self.calls = 0
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        self.calls += 1
        if self.calls == WARM_UP + 1 or (self.graph is not None and self.outdated()):
            self._capture()
        if self.graph is not None:
            self.graph.replay()
        else:
            self.work()

    @property
    def captured(self) -> bool:
        """Whether the work is replayed as a graph."""
        return self.graph is not None

    def _capture(self) -> None:
        self.graph = None  # its memory is used again
        self.pool = self.pool or MemoryPool()
        try:
            self.graph, _ = capture(self.work, self.pool, self.generators())
        except NotCaptured as reason:
            self.undo()
            self.log(f"{self.name} are not captured as a graph ({reason})")


def why_not_captured(device: torch.device, reweight: Any) -> str | None:
    """Why steps with this method cannot be captured; None if no reason is known."""
    if device.type != "cuda":
        return "there is no CUDA device"
    if is_initialized():
        return "processes exchange losses in every step"
    for part in (reweight, getattr(reweight, "val_stream", None)):
        reason: str | None = getattr(part, "host_work", None)
        if reason is not None:
            return reason
    return None


def generators_of(reweight: Any) -> list[Generator]:
    """The random generators on the GPU that a method uses in a step."""
    randomness = getattr(reweight, "randomness", None)
    found = [] if randomness is None else [randomness.generator]
    return [generator for generator in found if generator.device.type == "cuda"]
