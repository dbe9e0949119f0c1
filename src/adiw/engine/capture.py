"""A step as a CUDA graph: recorded once, then launched as one piece, without the host's time for each kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Generator

WARM_UP = 3  # steps before the recording: first touches, autotuning, lazily made state


class Captured:
    """Calls ``step`` at first, then replays a recording of it.

    A step that cannot be recorded goes on as it is, and ``tell`` is told why, once.

    Args:
        step: no arguments, no result; it reads and writes the same tensors every time.
        tell: gets a line of text when the step stays eager.
        generators: those that the step draws from, besides PyTorch's own.
    """

    def __init__(
        self,
        step: Callable[[], None],
        tell: Callable[[str], None],
        generators: Callable[[], Iterable[Generator]] = tuple,
    ) -> None:
        self.step, self.tell, self.generators = step, tell, generators
        self.calls = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.eager = False

    def __call__(self) -> None:
        self.calls += 1
        if self.graph is None and not self.eager and self.calls > WARM_UP:
            self._record()
        if self.graph is None:
            self.step()
        else:
            self.graph.replay()

    def _record(self) -> None:
        graph = torch.cuda.CUDAGraph()
        for generator in self.generators():
            graph.register_generator_state(generator)
        stream = torch.cuda.current_stream()
        try:
            # Other runs of this process may be working on their own streams: only our thread's calls are judged.
            with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
                self.step()
        except RuntimeError as error:
            self.eager = True
            self.tell(f"steps are not captured as a graph ({_first_line(error)})")
        else:
            self.graph = graph


def obstacle(device: torch.device, reweight: Any) -> str | None:
    """Why steps with this method cannot be captured; None when nothing is known to stand in the way."""
    if device.type != "cuda":
        return "there is no CUDA device"
    for part in (reweight, getattr(reweight, "probe", None)):
        reason: str | None = getattr(part, "host_work", None)
        if reason is not None:
            return reason
    return None


def generators_of(reweight: Any) -> list[Generator]:
    """The generators on the GPU that a method draws from in a step."""
    randomness = getattr(reweight, "randomness", None)
    found = [] if randomness is None else [randomness.generator]
    return [generator for generator in found if generator.device.type == "cuda"]


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(".")
