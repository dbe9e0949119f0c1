"""A GPU where there is none: for branches that ask where a tensor is, and for recordings that are none."""

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
    """A tensor of the CPU that says it is on a GPU: ``torch.tensor(...).as_subclass(PretendCuda)``."""

    is_cuda = True  # type: ignore[assignment]


def pretend_to_record(
    monkeypatch: pytest.MonkeyPatch, recording: Callable[[], AbstractContextManager[None]]
) -> list[str]:
    """Let a recording of work be ``recording``: the log tells which memory and generators each recording has."""
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
    monkeypatch.setattr(capture, "_launch_something", lambda: None)
    return log
