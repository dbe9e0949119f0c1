"""When work is captured and when it stays eager: the part of capture that needs no GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from adiw.engine.graphed_step import Captured, why_not_captured
from adiw.reweighting import cuda_graphs
from adiw.reweighting.cuda_graphs import WARM_UP, MemoryPool
from tests.gloo_processes import group_of_one
from tests.simulated_gpu import pretend_to_record

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@contextmanager
def breaks() -> Iterator[None]:
    try:
        yield
    finally:
        raise RuntimeError("the capture has failed.\nMore of it")


def test_work_is_captured_after_the_first_calls_and_then_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []

    def record(self: Captured) -> None:
        log.append("record")
        self.graph = SimpleNamespace(replay=lambda: log.append("replay"))  # type: ignore[assignment]

    captured = Captured(lambda: log.append("work"), log.append)
    monkeypatch.setattr(Captured, "_capture", record)
    for _ in range(WARM_UP + 2):
        captured()
    assert log == ["work"] * WARM_UP + ["record", "replay", "replay"]
    assert captured.captured


def test_work_that_is_outdated_is_captured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    log, outdated = [], [False]

    def record(self: Captured) -> None:
        log.append("record")
        self.graph = SimpleNamespace(replay=lambda: log.append("replay"))  # type: ignore[assignment]

    captured = Captured(lambda: log.append("work"), log.append, outdated=lambda: outdated.pop())
    monkeypatch.setattr(Captured, "_capture", record)
    for _ in range(WARM_UP + 1):
        captured()  # asks nothing
    for answer in (False, True, False):
        outdated.append(answer)
        captured()
    assert log == ["work"] * WARM_UP + ["record", "replay", "replay", "record", "replay", "replay"]


def test_work_that_cannot_be_captured_stays_eager_and_logs_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    captured = Captured(lambda: log.append("work"), log.append)
    monkeypatch.setattr(Captured, "_capture", lambda self: self.log("not captured"))
    for _ in range(WARM_UP + 3):
        captured()
    assert log == ["work"] * WARM_UP + ["not captured"] + ["work"] * 3
    assert not captured.captured


@pytest.mark.parametrize("fails", [True, False])
def test_it_logs_why_the_work_failed_not_why_the_capture_then_failed(
    monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    def work() -> None:
        if fails:
            raise RuntimeError("a number was asked for.\nMore of it")

    pretend_to_record(monkeypatch, breaks)
    messages: list[str] = []
    captured = Captured(work, messages.append, undo=lambda: messages.append("undone"))
    captured._capture()
    reason = "a number was asked for" if fails else "the capture has failed"
    assert messages == ["undone", f"steps are not captured as a graph ({reason})"]
    assert not captured.captured


def test_after_a_failed_capture_generators_draw_and_other_captures_succeed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PyTorch blocks the memory of a failed capture, and its generators until a later capture succeeds."""
    log = pretend_to_record(monkeypatch, breaks)
    own: Any = "a generator"
    pool = MemoryPool()
    Captured(lambda: None, lambda line: None, lambda: [own], pool)._capture()
    assert log == ["pool 1, ['a generator']", "no pool, ['a generator']"]
    Captured(lambda: None, lambda line: None, pool=pool)._capture()
    assert log[2:] == ["pool 2, []", "no pool, []"]


def test_if_the_second_capture_fails_too_the_work_runs_eagerly(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_generators: object, _stream: object) -> None:
        raise RuntimeError("captures are underway")

    pretend_to_record(monkeypatch, breaks)
    monkeypatch.setattr(cuda_graphs, "_end_capture_of", refuse)
    messages: list[str] = []
    Captured(lambda: None, messages.append, undo=lambda: messages.append("undone"))._capture()
    assert messages == ["undone", "steps are not captured as a graph (the capture has failed)"]


def test_captures_that_succeed_share_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    log = pretend_to_record(monkeypatch, nullcontext)
    pool = MemoryPool()
    captured = [Captured(lambda: None, log.append, pool=pool) for _ in range(2)]
    for one in captured:
        one._capture()
    assert log == ["pool 1, []"] * 2
    assert all(one.captured for one in captured)


@pytest.mark.parametrize(
    ("device", "reweight", "expected"),
    [
        (CPU, SimpleNamespace(), "there is no CUDA device"),
        (GPU, SimpleNamespace(), None),
        (GPU, SimpleNamespace(host_work="a solver on the host"), "a solver on the host"),
        (GPU, SimpleNamespace(host_work=None, val_stream=SimpleNamespace(host_work="files")), "files"),
    ],
)
def test_reasons_against_a_capture(device: torch.device, reweight: Any, expected: str | None) -> None:
    assert why_not_captured(device, reweight) == expected


def test_several_processes_stay_eager() -> None:
    assert why_not_captured(GPU, None) is None
    with group_of_one():
        assert why_not_captured(GPU, None) == "processes exchange losses in every step"
