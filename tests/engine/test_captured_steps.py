"""When work is captured and when it stays eager: the part of capture that needs no GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from adiw.engine.loop import why_not_captured
from adiw.reweighting import cuda_graphs
from adiw.reweighting.cuda_graphs import WARM_UP, GraphedCalls, MemoryPool
from tests.gloo_processes import group_of_one
from tests.simulated_gpu import pretend_to_record, simulate_graphs

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@contextmanager
def breaks() -> Iterator[None]:
    try:
        yield
    finally:
        raise RuntimeError("the capture has failed.\nMore of it")


@pytest.fixture(autouse=True)
def _on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_graphs, "can_capture", lambda device: True)


def after_warm_up(graphs: GraphedCalls, work: Callable[[], None]) -> None:
    for _ in range(WARM_UP + 1):
        graphs(work, (), CPU)


def nothing() -> None:
    pass


@pytest.mark.parametrize("fails", [True, False])
def test_it_says_why_the_work_failed_not_why_the_capture_then_failed(
    monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    calls: list[int] = []

    def work() -> None:
        calls.append(1)
        if fails and len(calls) == WARM_UP + 1:
            raise RuntimeError("a number was asked for.\nMore of it")

    pretend_to_record(monkeypatch, breaks)
    messages: list[str] = []
    graphs = GraphedCalls("steps", tell=messages.append, undo=lambda: messages.append("undone"))
    after_warm_up(graphs, work)
    reason = "a number was asked for" if fails else "the capture has failed"
    assert messages[0] == "undone"
    assert messages[1].startswith(f"steps are not captured as a CUDA graph and take longer ({reason})")
    assert not graphs.captured


def test_after_a_failed_capture_generators_draw_and_other_captures_succeed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PyTorch blocks the memory of a failed capture, and its generators until a later capture succeeds."""
    log = pretend_to_record(monkeypatch, breaks)
    own: Any = "a generator"
    memory, quiet = MemoryPool(), lambda line: None
    after_warm_up(GraphedCalls("steps", lambda: [own], quiet, memory), nothing)
    assert log == ["pool 1, ['a generator']", "no pool, ['a generator']"]
    after_warm_up(GraphedCalls("steps", tell=quiet, memory=memory), nothing)
    assert log[2:] == ["pool 2, []", "no pool, []"]


def test_if_the_second_capture_fails_too_the_work_runs_eagerly(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_generators: object, _stream: object) -> None:
        raise RuntimeError("captures are underway")

    pretend_to_record(monkeypatch, breaks)
    monkeypatch.setattr(cuda_graphs, "_end_capture_of", refuse)
    messages: list[str] = []
    after_warm_up(GraphedCalls("steps", tell=messages.append), nothing)
    (line,) = messages
    assert "(the capture has failed)" in line


def test_captures_that_succeed_share_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    log = pretend_to_record(monkeypatch, lambda: nullcontext())
    replayed = SimpleNamespace(replay=lambda: None)
    monkeypatch.setattr(
        cuda_graphs, "_Graph", lambda *parts: SimpleNamespace(replay=lambda inputs: None, result=replayed)
    )
    memory = MemoryPool()
    graphs = [GraphedCalls("steps", memory=memory) for _ in range(2)]
    for one in graphs:
        after_warm_up(one, nothing)
    assert log == ["pool 1, []"] * 2
    assert all(one.captured for one in graphs)


@pytest.mark.parametrize(
    ("device", "reweight", "expected"),
    [
        (CPU, SimpleNamespace(), "there is no CUDA device"),
        (GPU, SimpleNamespace(), None),
        (GPU, SimpleNamespace(host_work="a solver on the host"), "a solver on the host"),
        (GPU, SimpleNamespace(host_work=None, val_schedule=SimpleNamespace(host_work="files")), "files"),
    ],
)
def test_reasons_against_a_capture(device: torch.device, reweight: Any, expected: str | None) -> None:
    assert why_not_captured(device, reweight) == expected


def test_several_processes_stay_eager() -> None:
    assert why_not_captured(GPU, None) is None
    with group_of_one():
        assert why_not_captured(GPU, None) == "processes exchange losses in every step"


def test_after_less_work_the_next_call_captures_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    log = simulate_graphs(monkeypatch, list)
    graphs = GraphedCalls("steps")
    after_warm_up(graphs, lambda: calls.append(1))
    graphs.capture_again()
    graphs(lambda: calls.append(1), (), CPU)
    assert log == ["capture", "replay"] * 2
    assert len(calls) == WARM_UP + 2
