"""Sweeps that are stopped, terminated or killed, and resumed to the same result."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from adiw.experiments.budget import Budget
from tests.cli.conftest import Command
from tests.cli.images import write_module
from tests.experiments.small_sweeps import TEXT, files, write_recipe

PART = ("--processes", 1, "--shift", "much", "--trials", 1, "--method", "Uniform", "--method", "KL")


@pytest.fixture
def recipe(tmp_path: Path) -> None:
    """The network of KL sends its process a signal at step SIGNAL_STEP; ten steps are an epoch."""
    write_module(tmp_path, "signal_sweep")
    text = TEXT.replace("epochs = 2", "epochs = 3")
    write_recipe(tmp_path, text=text.replace('"adiw-kl"', '"adiw-kl"\nmodel = "signal_sweep:signalling"'))


def ask(monkeypatch: pytest.MonkeyPatch, number: signal.Signals, step: int) -> None:
    monkeypatch.setenv("SIGNAL", str(int(number)))
    monkeypatch.setenv("SIGNAL_STEP", str(step))


@pytest.mark.usefixtures("recipe")
def test_a_stopped_terminated_or_killed_sweep_resumes_to_the_same_files(
    adiw: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert adiw("sweep", "mine.toml", *PART, "--out", "whole").code == 0
    for number, step in ((signal.SIGINT, 5), (signal.SIGTERM, 3)):
        ask(monkeypatch, number, step)
        output = adiw("sweep", "mine.toml", *PART)
        assert output.code == 130
        assert "\nadiw: stopping after this step (again to stop immediately)\n" in output.err
        assert output.err.endswith("adiw: 1 done, 1 left\nadiw: stopped; the same command resumes\n")
        assert output.out.startswith("Digits: accuracy (%)\n")  # with the finished runs
        assert Path("runs/mine/tables/accuracy.txt").exists()

    ask(monkeypatch, signal.SIGKILL, 4)
    command = [sys.executable, "-m", "adiw", "sweep", "mine.toml", *map(str, PART)]
    killed = subprocess.run(command, capture_output=True, text=True, timeout=100, env={**os.environ})
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, "")

    monkeypatch.delenv("SIGNAL_STEP")
    output = adiw("sweep", "mine.toml", *PART)
    assert output.code == 0
    assert output.err.endswith("adiw: 2 done\n")
    assert files(tmp_path / "runs" / "mine") == files(tmp_path / "whole")
    assert Path("runs/mine/results.jsonl").read_text().count("\n") == 2


@pytest.mark.usefixtures("recipe")
def test_a_second_signal_ends_it_immediately(adiw: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = (tmp_path / "signal_sweep.py").read_text()
    line = next(line for line in text.splitlines(keepends=True) if "os.kill(" in line)
    (tmp_path / "signals_sweep.py").write_text(text.replace(line, 2 * line))
    write_recipe(tmp_path, text=(tmp_path / "mine.toml").read_text().replace("signal_sweep", "signals_sweep"))
    ask(monkeypatch, signal.SIGINT, 2)
    output = adiw("sweep", "mine.toml", *PART)
    assert (output.code, output.out) == (130, "")
    assert output.err.endswith("adiw: 1 done, 1 left\nadiw: stopped; the same command resumes\n")


@pytest.mark.usefixtures("recipe")
def test_a_stopped_timing_prints_how_to_resume(adiw: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(monkeypatch, signal.SIGINT, 5)
    output = adiw("sweep", "mine.toml", *PART[:-4], "--method", "KL", "--time")
    assert output.code == 130
    assert output.err.endswith("adiw: stopped; the same command resumes\n")
    assert output.out.startswith("Digits: seconds per epoch\n")
    assert not Path("runs/mine/timing.jsonl").exists()


def test_a_budget_ends_a_sweep_that_resumes_later(
    adiw: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_recipe(tmp_path)
    assert adiw("sweep", "mine.toml", *PART, "--out", "whole").code == 0
    asked: list[bool] = []
    monkeypatch.setattr(Budget, "spent", lambda self: len(asked) >= 3 or asked.append(True))
    output = adiw("sweep", "mine.toml", *PART, "--budget", "10m")
    assert output.code == 3
    assert output.err.endswith("left\nadiw: the time budget is spent; the same command resumes\n")
    assert output.out.startswith("Digits: accuracy (%)\n")
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    output = adiw("sweep", "mine.toml", *PART, "--budget", "10m")
    assert (output.code, output.err.endswith("adiw: 2 done\n")) == (0, True)
    assert files(tmp_path / "runs" / "mine") == files(tmp_path / "whole")


def test_a_budget_that_is_not_a_duration(adiw: Command, tmp_path: Path) -> None:
    write_recipe(tmp_path)
    output = adiw("sweep", "mine.toml", "--budget", "soon")
    assert (output.code, output.out) == (2, "")
    assert "--budget must be a duration such as 25m, 90s or 1h30m, got 'soon'" in output.err
