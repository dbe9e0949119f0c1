"""A simulated GPU: tensors that claim to be on one, and simulated captures of CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from adiw.engine import capture


class PretendCuda(Tensor):
    """A CPU tensor whose ``is_cuda`` is true: ``torch.tensor(...).as_subclass(PretendCuda)``."""

    is_cuda = True  # type: ignore[assignment]


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
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: next(numbers))
    monkeypatch.setattr(torch.cuda, "graph", graph)
    monkeypatch.setattr(capture, "_launch_kernel", lambda: None)
    return log
