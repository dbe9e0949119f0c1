"""A step as a CUDA graph: recorded once, then launched as one piece, without the host's time for each kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Generator

from adiw.team import Team

WARM_UP = 3  # steps before the recording: first touches, autotuning, lazily made state


class Captured:
    """Calls ``step`` at first, then replays a recording of it.

    A step that cannot be recorded goes on as it is, and ``tell`` is told why, once.

    Args:
        step: no arguments, no result; it reads and writes the same tensors every time.
        tell: gets a line of text when the step stays eager.
        generators: those that the step draws from, besides PyTorch's own.
        cycle: after how many steps their work repeats; each of them is recorded.
    """

    def __init__(
        self,
        step: Callable[[], None],
        tell: Callable[[str], None],
        generators: Callable[[], Iterable[Generator]] = tuple,
        cycle: int = 1,
    ) -> None:
        self.step, self.tell, self.generators, self.cycle = step, tell, generators, cycle
        self.calls = 0
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self.eager = False

    def __call__(self) -> None:
        phase = self.calls % self.cycle
        self.calls += 1
        if phase not in self.graphs and not self.eager and self.calls > WARM_UP * self.cycle:
            self._record(phase)
        if phase in self.graphs:
            self.graphs[phase].replay()
        else:
            self.step()

    @property
    def recorded(self) -> bool:
        """Whether the steps are replayed."""
        return len(self.graphs) == self.cycle

    def _record(self, phase: int) -> None:
        graph = torch.cuda.CUDAGraph()
        for generator in self.generators():
            graph.register_generator_state(generator)
        stream = torch.cuda.current_stream()
        try:
            # Other runs of this process may be working on their own streams: only our thread's calls are judged.
            with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
                self.step()
        except RuntimeError as error:
            self.eager, self.graphs = True, {}
            self.tell(f"steps are not captured as a graph ({_first_line(error)})")
        else:
            self.graphs[phase] = graph


def obstacle(device: torch.device, reweight: Any) -> str | None:
    """Why steps with this method cannot be captured; None when nothing is known to stand in the way."""
    if device.type != "cuda":
        return "there is no CUDA device"
    if Team().linked:
        return "processes talk to each other in every step"
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
