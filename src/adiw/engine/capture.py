"""CUDA graphs: a step is captured once and then replayed, which avoids launching every kernel from the host."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import torch
from torch import Generator

from adiw.distributed.process_group import is_initialized

WARM_UP = 3  # eager calls before the capture: they allocate state and let cuDNN choose its algorithms


class MemoryPool:
    """Memory shared by graphs that never replay at the same time."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Use new memory. PyTorch keeps a failed capture open and allows no other one in the same memory."""
        self.handle: Any = torch.cuda.graph_pool_handle()


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
    """

    def __init__(
        self,
        work: Callable[[], None],
        log: Callable[[str], None],
        generators: Callable[[], Iterable[Generator]] = tuple,
        pool: MemoryPool | None = None,
        name: str = "steps",
        undo: Callable[[], None] = lambda: None,
    ) -> None:
        self.work, self.log, self.generators, self.name, self.undo = work, log, generators, name, undo
        self.pool = pool
        self.calls = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.failed: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        self.calls += 1
        if self.calls == WARM_UP + 1:
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
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        generators, pool = list(self.generators()), self.pool or MemoryPool()
        for generator in generators:
            graph.register_generator_state(generator)
        causes: list[RuntimeError] = []
        try:
            # thread_local: calls of other threads, which train on their own streams, do not end this capture.
            with torch.cuda.graph(graph, pool.handle, stream, capture_error_mode="thread_local"):
                try:
                    self.work()
                except RuntimeError as error:
                    causes.append(error)  # leaving the capture raises a second error, which hides this reason
                    raise
        except RuntimeError as error:
            self.failed = graph  # kept alive: PyTorch's allocator may still refer to it
            pool.renew()
            with suppress(RuntimeError):  # the work runs eagerly even if PyTorch refuses another capture
                _end_capture_of(generators)
            self.undo()
            self.log(f"{self.name} are not captured as a graph ({_first_line((*causes, error)[0])})")
        else:
            self.graph = graph


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


def _end_capture_of(generators: Iterable[Generator]) -> None:
    """Make generators usable after a failed capture: they refuse to draw until a later capture succeeds."""
    graph = torch.cuda.CUDAGraph()
    for generator in generators:
        graph.register_generator_state(generator)
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"):
        _launch_kernel()


def _launch_kernel() -> None:
    torch.zeros((), device="cuda")  # PyTorch warns of a graph without kernels


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(".")
