"""Sweeps in several processes: the same files, and processes that are killed, stopped or lose their parent."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from adiw.experiments.executors import run_on
from adiw.experiments.local_executor import LocalExecutor, processes_for, visible_gpu
from adiw.experiments.recipes import Part, plan
from adiw.experiments.run import Interrupted
from adiw.experiments.sweep import RESULTS
from tests.experiments.small_sweeps import (
    DEAD,
    FAILED,
    TEXT,
    files,
    finish,
    in_two_processes,
    small,
    statuses,
    sweep,
)

PART = Part(shifts=("much",))


def test_two_processes_give_the_same_as_one(tmp_path: Path) -> None:
    recipe, handler = small(tmp_path, DEAD + FAILED), signal.getsignal(signal.SIGINT)
    finish(sweep(recipe, tmp_path / "one"), recipe, PART)
    in_two_processes(sweep(recipe, tmp_path / "two"), recipe, PART)
    assert files(tmp_path / "one") == files(tmp_path / "two")
    one, two = (sweep(recipe, tmp_path / name) for name in ("one", "two"))
    assert sorted(statuses(one)) == sorted(statuses(two))
    assert {status for *_, status in statuses(two)} == {"done", "dead", "failed"}
    assert {record["side_by_side"] for record in two.records(RESULTS)} == {2}  # they shared the machine
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_stop_reaches_the_processes(tmp_path: Path) -> None:
    recipe = small(tmp_path, text=TEXT.replace("epochs = 2", "epochs = 500"))
    seen: list[dict[str, Any]] = []
    work = sweep(recipe, tmp_path / "out", processes=2)

    def stop() -> bool:
        return any(row["epoch"] > 3 for row in seen)

    with LocalExecutor(2) as executor, pytest.raises(Interrupted, match="stopped; the same command resumes"):
        list(run_on(executor, work, plan(recipe, PART), lambda job, row: seen.append(row), stop))
    begun = [file.parent for file in (tmp_path / "out").rglob("metrics.jsonl")]
    assert len(begun) == 2
    assert all((folder / "checkpoint.pt").exists() for folder in begun)
    assert not list((tmp_path / "out").glob(".stop*"))


def test_a_killed_process_breaks_its_own_task_and_is_replaced() -> None:
    with LocalExecutor(1) as one, LocalExecutor(2) as two:
        killed = one.submit(os.getpid).result()
        paused, other = one.submit(signal.pause), two.submit(os.getpid)
        os.kill(killed, signal.SIGKILL)
        with pytest.raises(BrokenExecutor):
            paused.result(timeout=60)
        assert one.submit(os.getpid).result() not in (killed, other.result())


def test_an_error_ends_the_processes_immediately() -> None:
    executor = LocalExecutor(1)
    pid = executor.submit(os.getpid).result()
    paused, waiting = executor.submit(signal.pause), executor.submit(os.getpid)
    while not paused.running():
        time.sleep(0.01)
    executor.__exit__(KeyboardInterrupt)
    with pytest.raises(BrokenExecutor):
        paused.result(timeout=0)
    assert waiting.cancelled()
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(("threads", "processes"), [(None, 4), ("1", 4), ("2", 2), ("8", 1)])
def test_on_a_cpu_the_processes_are_the_cores_divided_by_the_threads(
    monkeypatch: pytest.MonkeyPatch, threads: str | None, processes: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(4)))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if threads is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        monkeypatch.setattr(torch, "get_num_threads", lambda: int(threads))
    assert processes_for(torch.device("cpu")) == processes


@pytest.mark.parametrize(("gpus_per_run", "visible"), [(1.0, "4567456"), (0.5, "4455667")])
def test_processes_are_spread_over_the_gpus(
    monkeypatch: pytest.MonkeyPatch, gpus_per_run: float, visible: str
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    assert processes_for(torch.device("cuda"), gpus_per_run) == 4 / gpus_per_run
    assert processes_for(torch.device("cuda:1"), gpus_per_run) == 1 / gpus_per_run
    assert "".join(str(visible_gpu(number, gpus_per_run)) for number in range(7)) == visible
    assert visible_gpu(1, None) is None
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert visible_gpu(1, 1.0) == "1"
