"""The progress bars of a sweep: the counts of its runs by state."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.progress import Progress, TextColumn

from adiw.cli.sweep import SweepProgress
from adiw.experiments.recipes import Planned
from adiw.experiments.settings import resolve

JOBS = [Planned("KL", "much", trial, resolve({"seed": trial, "epochs": 5})) for trial in range(4)]


@pytest.fixture
def bar() -> Progress:
    """Progress bars on a simulated terminal."""
    console = Console(file=io.StringIO(), force_terminal=True, width=200)
    return Progress(
        TextColumn("{task.description} {task.completed}/{task.total} {task.fields[note]}"), console=console
    )


def shown(bar: Progress) -> list[str]:
    return [f"{task.description} {task.completed}/{task.total} {task.fields['note']}".strip() for task in bar.tasks]


def test_a_bar_for_the_sweep_and_one_for_each_run(bar: Progress, capsys: pytest.CaptureFixture[str]) -> None:
    board = SweepProgress(bar, "mine", {JOBS[0]: "done", **dict.fromkeys(JOBS[1:], "left")})
    assert shown(bar) == ["mine 1/4 1 done, 3 left"]
    board.row(JOBS[1], {"epoch": 0})
    board.row(JOBS[2], {"epoch": 3, "accuracy": 88.123, "epochs": 25})
    assert shown(bar) == [
        "mine 1/4 1 done, 2 running, 1 left",
        "KL, much, trial 1 0/5",
        "KL, much, trial 2 3/25 accuracy 88.12",
    ]
    board.ended(JOBS[1], {"status": "done", "accuracy": 50.0})
    assert shown(bar)[0] == "mine 2/4 2 done, 1 running, 1 left"
    assert len(bar.tasks) == 2
    board.ended(JOBS[3], {"status": "failed", "reason": "no room"})  # before it was announced
    output = "adiw: KL, much, trial 3: failed (no room); 2 done, 1 running, 1 failed\n"
    assert capsys.readouterr().err == output  # with bars, a done run prints no line
    board.close()
    assert str(board) == "2 done, 1 failed, 1 left"
    assert (board.count("done"), board.count("failed", "left")) == (2, 2)


def test_without_bars_every_run_that_ends_prints_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    board = SweepProgress(Progress(disable=True), "mine", dict.fromkeys(JOBS, "left"))
    board.row(JOBS[0], {"epoch": 1, "accuracy": 50.0})
    board.ended(JOBS[0], {"status": "done", "accuracy": 50.0})
    assert capsys.readouterr().err == "adiw: KL, much, trial 0: done, accuracy 50.00; 1 done, 3 left\n"
