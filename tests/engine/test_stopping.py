"""When a requested stop takes effect, in one process and in several that ask each other."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from adiw.distributed.process_group import Processes
from adiw.engine import stopping
from adiw.engine.stopping import StopCheck, Stopped, at_intervals


class Two:
    """Two processes, of which this is one; the other answers what it is told to."""

    size = 2

    def __init__(self, requested: bool = False, seconds: float = 0.0) -> None:
        self.other, self.asked = (requested, seconds), 0

    def gather_object(self, value: Any) -> list[Any]:
        self.asked += 1
        return [value, self.other]


def steps_until_stopped(check: StopCheck, most: int) -> int:
    for step in range(1, most + 1):
        try:
            check.after_step()
        except Stopped:
            return step
    raise AssertionError(f"not stopped in {most} steps")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(stopping.time, "monotonic", lambda: now[0])
    return now


def test_one_process_asks_after_every_step() -> None:
    answers = iter([False, False, True])
    assert steps_until_stopped(StopCheck(lambda: next(answers), Processes()), 5) == 3
    with pytest.raises(Stopped):
        StopCheck(lambda: True, Processes()).in_one_process()


@pytest.mark.parametrize("own", [True, False])
def test_the_request_of_one_process_stops_both(clock: list[float], own: bool) -> None:
    check = StopCheck(lambda: own, Two(requested=not own))  # type: ignore[arg-type]
    assert steps_until_stopped(check, 1) == 1
    check.in_one_process()  # where they cannot agree, neither stops


def test_several_processes_ask_each_other_about_once_a_second(clock: list[float]) -> None:
    """The slowest decides: here the steps of this process take 0.01 seconds, then half a second."""
    two = Two()
    check = StopCheck(lambda: False, two)  # type: ignore[arg-type]
    seconds, asked = 0.01, []
    for step in range(1, 400):
        seconds = 0.5 if step > 300 else seconds
        clock[0] += seconds
        before = two.asked
        check.after_step()
        if two.asked > before:
            asked.append(step)
    assert asked[:7] == [1, 3, 7, 15, 31, 63, 127]
    gaps = [after - before for before, after in pairwise(asked)]
    assert max(gaps) <= 100
    assert gaps[-20:] == [2] * 20


def test_a_file_is_looked_for_at_intervals(clock: list[float]) -> None:
    asked: list[float] = []
    ask = at_intervals(lambda: bool(asked.append(clock[0])) or clock[0] > 1, seconds=0.25)
    for _ in range(200):
        clock[0] += 0.01
        ask()
    assert ask()
    assert len(asked) == 5
    assert asked[-1] > 1
