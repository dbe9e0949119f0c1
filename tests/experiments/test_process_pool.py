"""Sweeps in several processes: the same files, and processes that are killed, stopped or lose their parent."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from adiw.experiments.plan import Part, plan
from adiw.experiments.process_pool import run_in_processes
from adiw.experiments.run import Interrupted
from adiw.experiments.sweep import RESULTS
from tests.experiments.small_sweeps import DEAD, FAILED, TEXT, files, finish, small, statuses, sweep

PART = Part(shifts=("much",))
KILLER = """
import os, signal

def build(input_shape, num_classes):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_two_processes_give_the_same_as_one(tmp_path: Path) -> None:
    recipe, handler = small(tmp_path, DEAD + FAILED), signal.getsignal(signal.SIGINT)
    for name, processes in (("one", 1), ("two", 2)):
        finish(sweep(recipe, tmp_path / name, processes=processes), recipe, PART)
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
    with pytest.raises(Interrupted, match="stopped; the same command resumes"):
        list(run_in_processes(work, plan(recipe, PART), lambda job, row: seen.append(row), lambda: len(seen) > 6))
    begun = [file.parent for file in (tmp_path / "out").rglob("metrics.jsonl")]
    assert len(begun) == 2
    assert all((folder / "checkpoint.pt").exists() for folder in begun)


def test_a_killed_process_leaves_its_run_and_the_others_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "killer.py").write_text(KILLER)
    killed = '[[row]]\nlabel = "Killed"\nmethod = "uniform"\nmodel = "killer:build"\n'
    recipe = small(tmp_path, text=TEXT.replace("[[row]]", f"{killed}[[row]]", 1))
    part = Part(shifts=("much",), trials=1)
    ended = finish(sweep(recipe, tmp_path / "out", processes=2), recipe, part)
    assert sorted(job.row for job, _ in ended) == ["KL", "Uniform", "Val-Only"]
