"""Fewer launches from the host: CUDA graphs of work that is captured once and replayed, and torch.compile."""

from __future__ import annotations

import gc
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FunctionType, MethodType
from typing import Any, TypeVar

import torch
from torch import Generator, Tensor

T = TypeVar("T")

WARM_UP = 3  # eager calls before the capture: they allocate state and let cuDNN choose its algorithms
MOST_GRAPHS = 8  # of a ``GraphedCalls``: memory is bounded, and further signatures stay eager
MOST_SIGNATURES = 256  # whose calls are counted: where every batch has another size, most do not return
_CAPTURES = threading.Lock()  # PyTorch allows one capture at a time
ENABLED = True  # false captures and replays nothing, to compare both kinds of calls


class NotCaptured(RuntimeError):  # noqa: N818 - not an error of the caller: the work runs eagerly
    """The work cannot be captured; the message is the reason."""


class MemoryPool:
    """Memory shared by graphs that never replay at the same time."""

    def __init__(self) -> None:
        self.failed: list[Any] = []  # graphs kept alive: PyTorch's allocator may still refer to them
        self.renew()

    def renew(self) -> None:
        """Use new memory. PyTorch keeps a failed capture open and allows no other one in the same memory."""
        self.handle: Any = torch.cuda.graph_pool_handle()


def capture(work: Callable[[], T], pool: MemoryPool, generators: Iterable[Generator] = ()) -> tuple[Any, T]:
    """(CUDA graph of ``work``, what it returned: tensors that each replay overwrites).

    The capture itself executes nothing. ``generators`` are those that the work draws from, apart from PyTorch's
    default one. Raises ``NotCaptured``.
    """
    graph, generators = torch.cuda.CUDAGraph(), list(generators)
    for generator in generators:
        graph.register_generator_state(generator)
    causes: list[RuntimeError] = []
    with _CAPTURES:
        stream = _capture_stream()
        try:
            # thread_local: calls of other threads, which train on their own streams, do not end this capture. The
            # outer context restores the stream: a failed capture does not.
            with (
                _no_garbage_collection(),
                torch.cuda.stream(stream),
                torch.cuda.graph(graph, pool.handle, stream, capture_error_mode="thread_local"),
            ):
                try:
                    result = work()
                except RuntimeError as error:
                    causes.append(error)  # leaving the capture raises a second error, which hides this reason
                    raise
        except RuntimeError as error:
            pool.failed.append(graph)
            pool.renew()
            with suppress(RuntimeError):  # the work runs eagerly even if PyTorch refuses another capture
                _end_capture_of(generators, stream)
            raise NotCaptured(_first_line((*causes, error)[0])) from error
    return graph, result


def _warn(line: str) -> None:
    warnings.warn(line, stacklevel=4)


class GraphedCalls:
    """Calls functions on a GPU: eagerly at first, then as replays of CUDA graphs, one for each signature.

    A function reads and writes its other tensors in place, so that a replay has the effects of a call. Calls that
    cannot be captured stay eager, and one line says why. On other devices, and within another capture or compiled
    code, every call is eager.

    Args:
        name: the name of the calls in that line, a plural.
        generators: returns the random generators that the functions use, apart from PyTorch's default one.
        tell: gets the line; by default a warning.
        memory: shared with the graphs of other calls; None for separate memory.
        undo: resets what a failed capture changed on the host.
    """

    def __init__(
        self,
        name: str,
        generators: Callable[[], Iterable[Generator]] = tuple,
        tell: Callable[[str], None] = _warn,
        memory: MemoryPool | None = None,
        undo: Callable[[], None] | None = None,
    ) -> None:
        self.name, self.generators, self.tell, self.memory, self.undo = name, generators, tell, memory, undo
        self.reason: str | None = None  # why calls are not captured
        self.clear()

    @property
    def captured(self) -> bool:
        """Whether some calls are replayed as a graph."""
        return bool(self.graphs)

    def clear(self) -> None:
        """Drop all graphs, after tensors that they read or write were replaced."""
        self.calls: Counter[Hashable] = Counter()
        self.graphs: dict[Hashable, _Graph] = {}
        self.pool = self.memory

    def capture_again(self) -> None:
        """Drop all graphs, after the functions have less to do: the next call of each captures it.

        A pool without graphs cannot be captured into while a result is still in its memory, so they get a new one.
        """
        self.graphs, self.pool = {}, self.memory

    def __call__(
        self,
        function: Callable[..., T],
        inputs: Sequence[Tensor | None],
        device: torch.device,
        key: Hashable = (),
    ) -> tuple[T, bool]:
        """(``function(*inputs)``, whether the result is in memory that the next replay overwrites).

        Args:
            inputs: tensors; their shapes and dtypes are part of the signature.
            key: the part of the signature that is not in the inputs.
        """
        if self.reason is not None or not can_capture(device):
            return function(*inputs), False
        signature = (key, *((x if x is None else (x.shape, x.dtype)) for x in inputs))
        graph = self.graphs.get(signature)
        if graph is None and self._is_warm(signature):
            graph = self._capture(function, inputs, device, signature)
        if graph is None:
            return function(*inputs), False
        graph.replay(inputs)
        return graph.result, True

    def _is_warm(self, signature: Hashable) -> bool:
        """Count an eager call; whether the signature had enough of them to be captured."""
        if len(self.graphs) == MOST_GRAPHS:
            return False
        if len(self.calls) > MOST_SIGNATURES:
            self.calls.clear()
        self.calls[signature] += 1
        return self.calls[signature] > WARM_UP

    def _capture(
        self, function: Callable[..., Any], inputs: Sequence[Tensor | None], device: torch.device, signature: Hashable
    ) -> _Graph | None:
        static = [None if x is None else x.detach().to(device, copy=True) for x in inputs]
        try:
            with torch.cuda.device(device):
                self.pool = self.pool or MemoryPool()
                graph, result = capture(lambda: function(*static), self.pool, self.generators())
        except NotCaptured as error:
            if self.undo is not None:
                self.undo()
            self.stop(str(error))
            return None
        self.graphs[signature] = _Graph(graph, static, result)
        return self.graphs[signature]

    def stop(self, reason: str) -> None:
        """Capture nothing from now on, and say so."""
        self.clear()
        self.reason = reason
        self.tell(
            f"{self.name} are not captured as a CUDA graph and take longer ({reason}); the results do not change"
        )

    def __getstate__(self) -> dict[str, Any]:
        """Without graphs, which cannot be copied: a copy captures its own."""
        return {**self.__dict__, "calls": Counter(), "graphs": {}, "pool": None}


class _Graph:
    """A captured call: its inputs and its result are always the same memory."""

    def __init__(self, graph: Any, inputs: Sequence[Tensor | None], result: Any) -> None:
        self.graph, self.inputs, self.result = graph, inputs, result

    def replay(self, inputs: Sequence[Tensor | None]) -> None:
        for place, value in zip(self.inputs, inputs, strict=True):
            if place is not None and value is not None:
                place.copy_(value, non_blocking=True)
        self.graph.replay()


def can_capture(device: torch.device) -> bool:
    """Whether a call on this device may be captured: on a GPU, and not within a capture or compiled code."""
    if device.type != "cuda" or not ENABLED or torch.compiler.is_compiling():
        return False
    return not torch.cuda.is_current_stream_capturing()


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Keep Python from freeing objects in reference cycles: an old graph that is freed ends a capture."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _capture_stream() -> Any:
    """The current stream, or a new one: PyTorch's default stream cannot be captured."""
    current = torch.cuda.current_stream()
    return torch.cuda.Stream() if current == torch.cuda.default_stream() else current


def _end_capture_of(generators: Iterable[Generator], stream: Any) -> None:
    """Make generators usable after a failed capture: they refuse to draw until a later capture succeeds."""
    graph = torch.cuda.CUDAGraph()
    for generator in generators:
        graph.register_generator_state(generator)
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        _launch_kernel()


def _launch_kernel() -> None:
    torch.zeros((), device="cuda")  # PyTorch warns of a graph without kernels


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(".")


def compiled(owner: object, name: str, *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """The method ``name`` of ``owner``, by ``torch.compile(..., *args, **kwargs)``.

    PyTorch keeps the compiled versions of a function with its code, and makes at most eight: a ninth object would run
    uncompiled. So each object compiles a copy.
    """
    function: FunctionType = getattr(type(owner), name)
    own = FunctionType(
        function.__code__.replace(), function.__globals__, name, function.__defaults__, function.__closure__
    )
    own.__kwdefaults__ = function.__kwdefaults__
    return torch.compile(MethodType(own, owner), *args, **kwargs)
