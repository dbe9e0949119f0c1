"""A simulated GPU: tensors that claim to be on one, and simulated captures of CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, is_dataclass
from itertools import count
from types import SimpleNamespace
from typing import Any
from unittest import mock
from weakref import WeakKeyDictionary, WeakSet

import pytest
import torch
from torch import Generator, Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from adiw.matching import batches
from adiw.reweighting import adiw, cuda_graphs, look_ahead

ATEN = torch.ops.aten
READ_BY_THE_HOST = (ATEN._local_scalar_dense.default, ATEN.nonzero.default, ATEN.equal.default)
INDEXING = (ATEN.index.Tensor, ATEN.index_put_.default, ATEN.index_put.default)


class PretendCuda(Tensor):
    """A CPU tensor whose ``is_cuda`` is true: ``torch.tensor(...).as_subclass(PretendCuda)``."""

    is_cuda = True  # type: ignore[assignment]


def always_eager() -> AbstractContextManager[Any]:
    """Capture and replay nothing within this context."""
    return mock.patch.object(cuda_graphs, "ENABLED", False)


def pretend_to_record(
    monkeypatch: pytest.MonkeyPatch, recording: Callable[[], AbstractContextManager[None]]
) -> list[str]:
    """Use ``recording`` as the capture of a CUDA graph; returns a log of each capture's memory and generators."""
    log: list[str] = []
    numbers = count(1)

    def graph(
        graph: SimpleNamespace, pool: int | None = None, stream: object = None, **_named: object
    ) -> AbstractContextManager[None]:
        log.append(f"{'no pool' if pool is None else f'pool {pool}'}, {graph.generators}")
        return nullcontext() if pool is None else recording()

    def made() -> SimpleNamespace:
        generators: list[Any] = []
        return SimpleNamespace(generators=generators, register_generator_state=generators.append)

    monkeypatch.setattr(torch.cuda, "CUDAGraph", made)
    for name in ("current_stream", "default_stream", "Stream"):
        monkeypatch.setattr(torch.cuda, name, lambda: None)
    for name in ("stream", "device"):
        monkeypatch.setattr(torch.cuda, name, lambda _place: nullcontext())
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: next(numbers))
    monkeypatch.setattr(torch.cuda, "graph", graph)
    monkeypatch.setattr(cuda_graphs, "_launch_kernel", lambda: None)
    return log


class Recorder(TorchDispatchMode):
    """Records the operations of a function, as a CUDA graph does: what Python computes is fixed when it is recorded.

    An operation whose result the host reads ends the recording with an error.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        masks = args[1] if function in INDEXING else ()
        if function in READ_BY_THE_HOST or any(x is not None and x.dtype == torch.bool for x in masks):
            raise RuntimeError(f"operation not permitted when stream is capturing: {function}")
        result = function(*args, **(kwargs or {}))
        self.calls.append((function, args, kwargs or {}, result))
        return result

    def replay(self) -> None:
        """Execute the operations again: they read and write the memory that they had when they were recorded."""
        for function, args, kwargs, result in self.calls:
            found = function(*args, **kwargs)
            for place, value in zip(tensors_in(result), tensors_in(found), strict=True):
                if place.untyped_storage().data_ptr() != value.untyped_storage().data_ptr():  # not a view
                    place.copy_(value)


class SimulatedGraph:
    """What a ``Recorder`` recorded, with the method of PyTorch's graphs."""

    def __init__(self, recorder: Recorder, log: list[str]) -> None:
        self.recorder, self.log = recorder, log

    def replay(self) -> None:
        self.log.append("replay")
        self.recorder.replay()


def simulate_graphs(monkeypatch: pytest.MonkeyPatch, state: Callable[[], list[Tensor]]) -> list[str]:
    """Simulate ``cuda_graphs.capture`` on the CPU by a ``Recorder``; returns a log of captures and replays.

    As on a GPU, a capture leaves the ``state`` unchanged, a replay writes its results to the memory of the first, and
    memory whose graphs are all gone takes no new one: PyTorch refuses it while one of their results is alive.
    """
    log: list[str] = []
    captured: WeakKeyDictionary[Any, WeakSet[SimulatedGraph]] = WeakKeyDictionary()  # by pool

    def pretend_to_capture(work: Callable[[], Any], pool: object, generators: Iterable[Generator]) -> tuple[Any, Any]:
        log.append("capture")
        if pool in captured and not captured[pool]:
            raise cuda_graphs.NotCaptured("use_count > 0 INTERNAL ASSERT FAILED")
        before = [(tensor, tensor.clone()) for tensor in state()]
        drawn = [(generator, generator.get_state()) for generator in generators]
        recorder = Recorder()
        try:
            with recorder:
                result = work()
        except RuntimeError as error:
            raise cuda_graphs.NotCaptured(str(error)) from error
        finally:
            for tensor, value in before:
                tensor.copy_(value)
            for generator, position in drawn:
                generator.set_state(position)

        graph = SimulatedGraph(recorder, log)
        captured.setdefault(pool, WeakSet()).add(graph)
        return graph, result

    monkeypatch.setattr(cuda_graphs, "capture", pretend_to_capture)
    monkeypatch.setattr(cuda_graphs, "MemoryPool", type("MemoryPool", (), {}))
    monkeypatch.setattr(torch.cuda, "device", lambda _device: nullcontext())
    monkeypatch.setattr(batches, "host_can_read", lambda _values: False)
    for module in (cuda_graphs, adiw, look_ahead):
        monkeypatch.setattr(module, "can_capture", lambda _device: cuda_graphs.ENABLED)
    return log


def tensors_in(value: Any) -> list[Tensor]:
    """All tensors in nested tuples, lists, mappings and dataclasses."""
    if isinstance(value, Tensor):
        return [value]
    if is_dataclass(value):
        value = [getattr(value, field.name) for field in fields(value)]
    elif isinstance(value, dict):
        value = list(value.values())
    return [tensor for part in value for tensor in tensors_in(part)] if isinstance(value, (tuple, list)) else []
