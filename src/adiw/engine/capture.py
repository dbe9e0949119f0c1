"""A step as a CUDA graph: recorded once, then launched as one piece, without the host's time for each kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import torch
from torch import Generator

from adiw.distributed.process_group import ProcessGroup

WARM_UP = 3  # calls before the recording: first touches, autotuning, lazily made state


class Pool:
    """Memory that recordings share which are never replayed at the same time."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """After a recording that broke: PyTorch never closes it, and would let no other one begin in its memory."""
        self.handle: Any = torch.cuda.graph_pool_handle()


class Captured:
    """Calls ``work`` at first, then replays a recording of it.

    Work that cannot be recorded goes on as it is, and ``tell`` is told why, once.

    Args:
        work: no arguments, no result; it reads and writes the same tensors every time.
        tell: gets a line of text when the work stays eager.
        generators: those that the work draws from, besides PyTorch's own.
        pool: of memory, shared with other recordings; None for one of its own.
        name: of the work, in that line.
        undo: takes back what a recording that failed has left on the host: the work is done again, and not recorded.
    """

    def __init__(
        self,
        work: Callable[[], None],
        tell: Callable[[str], None],
        generators: Callable[[], Iterable[Generator]] = tuple,
        pool: Pool | None = None,
        name: str = "steps",
        undo: Callable[[], None] = lambda: None,
    ) -> None:
        self.work, self.tell, self.generators, self.name, self.undo = work, tell, generators, name, undo
        self.pool = pool
        self.calls = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.broken: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        self.calls += 1
        if self.calls == WARM_UP + 1:
            self._record()
        if self.graph is not None:
            self.graph.replay()
        else:
            self.work()

    @property
    def recorded(self) -> bool:
        """Whether the work is replayed."""
        return self.graph is not None

    def _record(self) -> None:
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        generators, pool = list(self.generators()), self.pool or Pool()
        for generator in generators:
            graph.register_generator_state(generator)
        causes: list[RuntimeError] = []
        try:
            # Other runs of this process may be working on their own streams: only our thread's calls are judged.
            with torch.cuda.graph(graph, pool.handle, stream, capture_error_mode="thread_local"):
                try:
                    self.work()
                except RuntimeError as error:
                    causes.append(error)  # the end of a recording that was broken fails too, and does not say why
                    raise
        except RuntimeError as error:
            self.broken = graph  # kept: PyTorch's allocator may go on asking it whether memory is for its recording
            pool.renew()
            with suppress(RuntimeError):  # where PyTorch lets no other one begin; the work goes on in any case
                _close(generators)
            self.undo()
            self.tell(f"{self.name} are not captured as a graph ({_first_line((*causes, error)[0])})")
        else:
            self.graph = graph


def obstacle(device: torch.device, reweight: Any) -> str | None:
    """Why steps with this method cannot be captured; None when nothing is known to stand in the way."""
    if device.type != "cuda":
        return "there is no CUDA device"
    if ProcessGroup().linked:
        return "processes talk to each other in every step"
    for part in (reweight, getattr(reweight, "val_stream", None)):
        reason: str | None = getattr(part, "host_work", None)
        if reason is not None:
            return reason
    return None


def generators_of(reweight: Any) -> list[Generator]:
    """The generators on the GPU that a method draws from in a step."""
    randomness = getattr(reweight, "randomness", None)
    found = [] if randomness is None else [randomness.generator]
    return [generator for generator in found if generator.device.type == "cuda"]


def _close(generators: Iterable[Generator]) -> None:
    """After a recording that broke PyTorch's generators believe in it, and draw nothing before one has ended well."""
    graph = torch.cuda.CUDAGraph()
    for generator in generators:
        graph.register_generator_state(generator)
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"):
        _launch_something()


def _launch_something() -> None:
    torch.zeros((), device="cuda")  # an empty recording is warned of


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(".")
