"""The number of threads of a run on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from adiw.experiments import cpu_threads, run
from adiw.experiments.cpu_threads import choose_threads, idle_cores, operations
from adiw.experiments.run import Interrupted
from adiw.experiments.settings import Settings, resolve
from adiw.experiments.splits import load_splits
from adiw.experiments.training_run import Engine

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _four_threads(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def chosen(settings: Settings, idle: float | None, monkeypatch: pytest.MonkeyPatch, small: float = 1e8) -> int:
    monkeypatch.setattr(cpu_threads, "idle_cores", lambda: idle)
    monkeypatch.setattr(cpu_threads, "SMALL", small)
    return choose_threads(settings, load_splits(settings))


@pytest.mark.parametrize(
    ("idle", "expected"), [(None, 4), (0.0, 1), (0.3, 1), (1.2, 1), (1.8, 2), (4.0, 4), (63.0, 4)]
)
def test_a_large_network_has_the_idle_cores(
    monkeypatch: pytest.MonkeyPatch, idle: float | None, expected: int
) -> None:
    assert chosen(resolve({"dataset": "digits"}), idle, monkeypatch, small=0.0) == expected


def test_a_small_network_has_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = resolve({"dataset": "digits"})
    assert chosen(settings, 4.0, monkeypatch) == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert chosen(settings, 4.0, monkeypatch) == 4


def test_the_operations_are_those_of_the_products() -> None:
    network = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2))
    assert operations(network, torch.zeros(1, 3)) == 2 * (3 * 5 + 5 * 2)


def test_idle_cores_are_read_from_the_statistics(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "stat"
    monkeypatch.setattr(cpu_threads, "STATISTICS", file)
    assert idle_cores() is None
    seconds = iter([10.0, 10.5])
    ticks = iter([1000, 1100])  # a second of idle time within half a second: two cores

    def read(self: Path) -> str:
        return f"cpu  5 0 5 {next(ticks)} 0 0 0 0 0 0\ncpu0 1 1 1 1\n"

    monkeypatch.setattr(Path, "read_text", read)
    monkeypatch.setattr(cpu_threads.os, "sysconf", lambda name: 100)
    monkeypatch.setattr(cpu_threads.time, "monotonic", lambda: next(seconds))
    monkeypatch.setattr(cpu_threads.time, "sleep", lambda seconds: None)
    assert idle_cores() == 2.0


def test_a_resumed_run_keeps_its_number(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings, rows = resolve({"dataset": "digits", "epochs": 2, "method": "uniform"}), []
    engine = Engine(CPU, 0, choose_threads=True)
    monkeypatch.setattr(run, "choose_threads", lambda settings, splits: 3)
    with pytest.raises(Interrupted):
        run.run(settings, tmp_path, None, engine, False, rows.append, lambda: bool(rows))
    assert torch.get_num_threads() == 3
    torch.set_num_threads(2)
    monkeypatch.setattr(run, "choose_threads", lambda settings, splits: 1)
    run.run(settings, tmp_path, None, engine, True)
    assert torch.get_num_threads() == 3
    run.run(settings, tmp_path / "other", None, Engine(CPU, 0), False)
    assert torch.get_num_threads() == 3  # a caller from Python keeps its own
