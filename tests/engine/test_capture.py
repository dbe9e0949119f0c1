"""When work is recorded, and why not: the part of capture that needs no GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from adiw.engine import capture
from adiw.engine.capture import WARM_UP, Captured, Pool, obstacle
from tests.pretend import pretend_to_record
from tests.several import group_of_one

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@contextmanager
def breaks() -> Iterator[None]:
    try:
        yield
    finally:
        raise RuntimeError("the recording has failed.\nMore of it")


def test_work_is_recorded_after_the_first_calls_and_then_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []

    def record(self: Captured) -> None:
        log.append("record")
        self.graph = SimpleNamespace(replay=lambda: log.append("replay"))  # type: ignore[assignment]

    captured = Captured(lambda: log.append("work"), log.append)
    monkeypatch.setattr(Captured, "_record", record)
    for _ in range(WARM_UP + 2):
        captured()
    assert log == ["work"] * WARM_UP + ["record", "replay", "replay"]
    assert captured.recorded


def test_work_that_cannot_be_recorded_goes_on_and_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    captured = Captured(lambda: log.append("work"), log.append)
    monkeypatch.setattr(Captured, "_record", lambda self: self.tell("not captured"))
    for _ in range(WARM_UP + 3):
        captured()
    assert log == ["work"] * WARM_UP + ["not captured"] + ["work"] * 3
    assert not captured.recorded


@pytest.mark.parametrize("fails", [True, False])
def test_it_says_why_the_work_failed_not_that_the_recording_then_did(
    monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    def work() -> None:
        if fails:
            raise RuntimeError("a number was asked for.\nMore of it")

    pretend_to_record(monkeypatch, breaks)
    told: list[str] = []
    captured = Captured(work, told.append, undo=lambda: told.append("undone"))
    captured._record()
    reason = "a number was asked for" if fails else "the recording has failed"
    assert told == ["undone", f"steps are not captured as a graph ({reason})"]
    assert not captured.recorded


def test_after_a_recording_that_breaks_generators_draw_and_others_are_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PyTorch keeps the memory of such a recording closed, and its generators until one of them ends well."""
    log = pretend_to_record(monkeypatch, breaks)
    own: Any = "a generator"
    pool = Pool()
    Captured(lambda: None, lambda line: None, lambda: [own], pool)._record()
    assert log == ["pool 1, ['a generator']", "no pool, ['a generator']"]
    Captured(lambda: None, lambda line: None, pool=pool)._record()
    assert log[2:] == ["pool 2, []", "no pool, []"]


def test_where_the_closing_fails_too_the_work_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_generators: object) -> None:
        raise RuntimeError("captures are underway")

    pretend_to_record(monkeypatch, breaks)
    monkeypatch.setattr(capture, "_close", refuse)
    told: list[str] = []
    Captured(lambda: None, told.append, undo=lambda: told.append("undone"))._record()
    assert told == ["undone", "steps are not captured as a graph (the recording has failed)"]


def test_recordings_that_succeed_share_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    log = pretend_to_record(monkeypatch, nullcontext)
    pool = Pool()
    captured = [Captured(lambda: None, log.append, pool=pool) for _ in range(2)]
    for one in captured:
        one._record()
    assert log == ["pool 1, []"] * 2
    assert all(one.recorded for one in captured)


@pytest.mark.parametrize(
    ("device", "reweight", "expected"),
    [
        (CPU, SimpleNamespace(), "there is no CUDA device"),
        (GPU, SimpleNamespace(), None),
        (GPU, SimpleNamespace(host_work="a solver on the host"), "a solver on the host"),
        (GPU, SimpleNamespace(host_work=None, val_stream=SimpleNamespace(host_work="files")), "files"),
    ],
)
def test_what_stands_in_the_way(device: torch.device, reweight: Any, expected: str | None) -> None:
    assert obstacle(device, reweight) == expected


def test_processes_that_talk_in_every_step_stay_eager() -> None:
    assert obstacle(GPU, None) is None
    with group_of_one():
        assert obstacle(GPU, None) == "processes talk to each other in every step"
