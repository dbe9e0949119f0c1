"""``adiw demo``: all methods, a table and a page; missing and dead runs are marked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from adiw.cli import demo as demo_module
from adiw.experiments.recipes import Planned
from adiw.experiments.run import run
from adiw.experiments.settings import resolve
from adiw.experiments.sweep import Sweep
from adiw.experiments.training_run import Engine
from adiw.reports.folders import METHOD_ORDER
from tests.child_processes import children, needs_proc, wait_until_ended
from tests.cli.conftest import Command

METHODS = [method for method in METHOD_ORDER if method in demo_module.ORDER]
Ended = Iterator[tuple[Planned, dict[str, Any]]]


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "120"}


def test_the_demo_compares_all_methods(tmp_path: Path) -> None:
    assert len(METHODS) == 12
    assert sorted(METHODS) == sorted(demo_module.ORDER)
    command = [sys.executable, "-m", "adiw", "demo", "--seeds", "1", "--epochs", "2", "--out", "d"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=True, cwd=tmp_path, env=environment()
    )
    assert done.stderr == ""
    lines = [line.split() for line in done.stdout.splitlines() if line.split(" ")[0] in METHODS]
    assert [line[0] for line in lines] == METHODS
    assert all(float(line[1]) > 5 and line[2] == "1" and float(line[3]) > 0 for line in lines)
    page = (tmp_path / "d" / "index.html").read_text()
    assert all(f'data-name="{method}"' in page for method in METHODS)
    assert f"Report with curves and weights: {Path('d') / 'index.html'}" in done.stdout
    assert {file.name for file in (tmp_path / "d").iterdir() if file.is_dir()} == {f"{m}-0" for m in METHODS}


def test_dead_and_missing_runs_are_shown_as_such(adiw: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def few(executor: Any, work: Sweep, jobs: list[Planned], *rest: Any) -> Ended:
        lr = {0: 0.1, 1: 1e6}
        some = [job for job in jobs if job.row in ("uniform", "oracle")]
        yield from work.run([replace(job, settings=replace(job.settings, lr=lr[job.trial])) for job in some])
        yield jobs[0], {"status": "failed", "reason": "MemoryError: no room"}

    monkeypatch.setattr(demo_module, "run_on", few)
    monkeypatch.setenv("COLUMNS", "120")
    output = adiw("demo", "--seeds", 2, "--epochs", 1, "--out", "d")
    assert (output.code, output.err) == (0, "adiw: diw-0: MemoryError: no room\n")
    table = {line.split()[0]: line for line in output.out.splitlines() if line.split(" ")[0] in METHODS}
    assert list(table) == METHODS
    assert "1 dead" in table["uniform"]
    assert "1 dead" in table["oracle"]
    assert "2 unfinished" in table["diw"]
    page = Path("d/index.html").read_text()
    assert ": 2 finished, 2 dead, 20 unfinished." in page
    line = page.split('data-name="diw"><th scope="row">diw</th>')[1].partition("</tr>")[0]
    assert "2 unfinished" in line
    assert '<fieldset id="columns">' not in page  # missing runs have the same setting


def test_results_of_an_earlier_demo_are_deleted(adiw: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    run(resolve({"method": "uniform", "epochs": 1}), Path("d/uniform-0"), engine=Engine(torch.device("cpu")))
    Path("d/uniform-0/kept").mkdir()
    monkeypatch.setattr(demo_module, "run_on", lambda *arguments: iter(()))
    output = adiw("demo", "--seeds", 1, "--epochs", 1, "--out", "d")
    assert output.code == 0
    assert output.out.count("0 of 1 trials, 1 unfinished") == 12
    assert [file.name for file in Path("d/uniform-0").iterdir()] == ["kept"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seeds", 0], "Invalid value for '--seeds': "),
        (["--epochs", 0], "epochs must be at least 1, got 0"),
        (["--out", "file/d"], "cannot write to the folder file/d (Not a directory): choose another"),
    ],
)
def test_what_cannot_be_run_is_refused(adiw: Command, arguments: list[object], message: str) -> None:
    Path("file").write_text("")
    output = adiw("demo", *arguments)
    assert (output.code, output.out, output.err.count("\n")) == (2, "", 1)
    assert output.err.startswith(f"adiw: {message}")


@needs_proc
def test_ctrl_c_ends_all_processes_without_a_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "adiw", "demo", "--out", "d"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment(),
        start_new_session=True,
    ) as demo:
        deadline = time.monotonic() + 60
        while len(children(demo.pid)) < 2:  # a tracker, and a process that still imports
            assert time.monotonic() < deadline
            assert demo.poll() is None, demo.communicate()
            time.sleep(0.01)
        started = children(demo.pid)
        os.killpg(demo.pid, signal.SIGINT)
        out, err = demo.communicate(timeout=60)
    assert (demo.returncode, out, err) == (130, "", "adiw: stopped\n")
    wait_until_ended(started)
