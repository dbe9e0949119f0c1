"""When steps are recorded, in which turn, and why not: the part of capture that needs no GPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from adiw.engine.capture import WARM_UP, Captured, obstacle
from tests.several import group_of_one

CPU, GPU = torch.device("cpu"), torch.device("cuda")


def record(captured: Captured, phase: int, log: list[str]) -> None:
    captured.graphs[phase] = SimpleNamespace(replay=lambda: log.append(f"replay {phase}"))  # type: ignore[assignment]


@pytest.mark.parametrize("cycle", [1, 3])
def test_every_turn_of_a_cycle_is_recorded_once_and_replayed_in_order(
    monkeypatch: pytest.MonkeyPatch, cycle: int
) -> None:
    log: list[str] = []
    captured = Captured(lambda: log.append("step"), log.append, cycle=cycle)
    monkeypatch.setattr(Captured, "_record", lambda self, phase: record(self, phase, log))
    for _ in range(WARM_UP * cycle + 2 * cycle):
        captured()
    assert log == ["step"] * (WARM_UP * cycle) + [f"replay {phase}" for phase in range(cycle)] * 2
    assert captured.recorded


def test_a_step_that_cannot_be_recorded_goes_on_and_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []

    def fail(self: Captured, phase: int) -> None:
        self.eager = True
        self.tell("not captured")

    captured = Captured(lambda: log.append("step"), log.append)
    monkeypatch.setattr(Captured, "_record", fail)
    for _ in range(WARM_UP + 3):
        captured()
    assert log == ["step"] * WARM_UP + ["not captured"] + ["step"] * 3
    assert not captured.recorded


@pytest.mark.parametrize(
    ("device", "reweight", "expected"),
    [
        (CPU, SimpleNamespace(), "there is no CUDA device"),
        (GPU, SimpleNamespace(), None),
        (GPU, SimpleNamespace(host_work="a solver on the host"), "a solver on the host"),
        (GPU, SimpleNamespace(host_work=None, probe=SimpleNamespace(host_work="files")), "files"),
    ],
)
def test_what_stands_in_the_way(device: torch.device, reweight: Any, expected: str | None) -> None:
    assert obstacle(device, reweight) == expected


def test_processes_that_talk_in_every_step_stay_eager() -> None:
    assert obstacle(GPU, None) is None
    with group_of_one():
        assert obstacle(GPU, None) == "processes talk to each other in every step"
