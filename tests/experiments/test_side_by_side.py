"""The number of runs side by side, found with a clock that the test sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from adiw.experiments import sweep as sweep_module
from adiw.experiments.recipes import plan
from adiw.experiments.run import Engine
from adiw.experiments.side_by_side import Ramp, has_memory_for_one_more
from adiw.experiments.sweep import Sweep
from tests.experiments.small_sweeps import TEXT, small, sweep


class Device:
    """A device on which a round of k runs takes ``seconds(k)``; runs on it never end by themselves."""

    def __init__(self, seconds: Callable[[int], float], room: int = 100) -> None:
        self.now, self.seconds, self.lines = 0.0, seconds, []
        self.ramp = Ramp(lambda runs: runs < room, self.lines.append, lambda: self.now)
        self.rounds: list[int] = []

    def run(self, jobs: int, rounds: int = 300) -> int:
        """The number of runs side by side after these rounds."""
        for _ in range(rounds):
            while len(self.rounds) < min(self.ramp.limit, jobs):
                self.rounds.append(0)
                self.now += 5.0  # a new run loads its data
            self.now += self.seconds(len(self.rounds))
            self.rounds = [count + 1 for count in self.rounds]
            self.ramp.end_round(self.rounds)
        return self.ramp.limit


def measured(runs: int) -> float:
    """Fashion-MNIST on one GPU: three runs have 1.7 times the throughput of one, fourteen hardly more than one."""
    return {1: 1.0, 2: 1.38, 3: 1.76}.get(runs, runs * (0.6 + 0.03 * (runs - 3)))


@pytest.mark.parametrize("scale", [0.01, 1.0, 60.0])  # seconds of an epoch
@pytest.mark.parametrize(
    ("seconds", "best"),
    [
        (measured, 3),
        (lambda runs: runs, 1),  # one after the other
        (lambda runs: 1.02**runs * runs, 1),
        (lambda runs: max(1.0, runs / 6), 6),  # six fit beside each other
        (lambda runs: 1.0, 20),
    ],
)
def test_runs_are_added_while_the_throughput_rises(seconds: Callable[[int], float], best: int, scale: float) -> None:
    device = Device(lambda runs: scale * seconds(runs))
    device.run(jobs=20, rounds=6000)
    assert min(device.ramp.limit, 20) == best
    throughput = best / (scale * seconds(best))
    expected = f"{best} runs side by side have the highest throughput ({throughput:.3g} epochs per second)"
    assert device.lines == ([expected] if best < 20 else [])


def test_no_run_is_added_without_memory() -> None:
    device = Device(lambda runs: 1.0, room=4)
    assert device.run(jobs=20) == 4
    assert len(device.lines) == 1


def test_rounds_in_which_a_run_starts_or_ends_are_not_measured() -> None:
    device = Device(lambda runs: 1.0)
    device.run(jobs=2, rounds=8)
    assert device.ramp.limit == 2
    for _ in range(50):  # one of two runs ends in every second round, and another takes its place
        device.now += 1.0
        device.ramp.end_round([5])
        device.now += 1.0
        device.ramp.end_round([6, 1])
    assert device.ramp.limit == 2
    assert device.lines == []


def test_a_sweep_follows_the_ramp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = small(tmp_path, text=TEXT.replace("trials = 2", "trials = 5"))
    active: list[object] = []
    now, most = 0.0, []

    def epochs(*arguments: Any) -> Iterator[None]:
        nonlocal now
        active.append(me := object())
        for _ in range(40):
            now += measured(len(active)) / len(active)
            most.append(len(active))
            yield
        active.remove(me)

    monkeypatch.setattr(sweep_module, "run_epochs", epochs)
    monkeypatch.setattr(Sweep, "_width", lambda self: Ramp(lambda runs: True, clock=lambda: now))
    ended = list(sweep(recipe, tmp_path / "out", None).run(plan(recipe)))
    assert len({job.name for job, _ in ended}) == 30
    assert max(most) == 4  # one more than the best number, to measure it
    assert max(most[-400:-200]) == 3
    together = [record["side_by_side"] for _, record in ended]
    assert together[:2] == [4, 4]
    assert set(together[-10:]) == {3}


@pytest.mark.parametrize(
    ("device", "given", "kind"), [("cuda", None, "Ramp"), ("cuda", 2, "Width"), ("cpu", None, "Width")]
)
def test_only_a_gpu_is_measured(tmp_path: Path, device: str, given: int | None, kind: str) -> None:
    work = sweep(small(tmp_path), tmp_path / "out", given)
    work.engine = Engine(torch.device(device))
    width = work._width()
    assert (type(width).__name__, width.limit) == (kind, given or 1)


@pytest.mark.parametrize(("free", "room"), [(1500, False), (1501, True)])
def test_memory_for_one_more_is_well_above_the_share_of_a_run(
    monkeypatch: pytest.MonkeyPatch, free: int, room: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 10**6))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 3000)
    assert has_memory_for_one_more(torch.device("cuda"), 3) is room
