"""Progress: the stages of a run, and lines where there is no terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from rich.progress import Progress

from adiw.cli.console import on_bars, timed_lines, working
from adiw.experiments import training_run
from adiw.experiments.run import run
from adiw.experiments.settings import resolve
from adiw.experiments.training_run import Engine
from adiw.reweighting.diagnostics import quick_model


def test_lines_are_printed_no_more_often_than_asked(capsys: pytest.CaptureFixture[str]) -> None:
    timed_lines(quiet=False, seconds=1000)("too early")
    timed_lines(quiet=True, seconds=0)("quiet")
    timed_lines(quiet=False, seconds=0)("epoch 1 of 3")
    assert capsys.readouterr().err == "adiw: epoch 1 of 3\n"


def test_a_run_says_what_it_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_run, "BETWEEN", -1.0)  # every step
    monkeypatch.setattr(quick_model, "_shared", {})  # its result would be that of another test
    found: list[str] = []
    settings = resolve({"epochs": 2, "batch": 512, "trusted": 50})
    run(settings, tmp_path, engine=Engine(torch.device("cpu"), stage=found.append))
    assert found[:2] == ["reading the data", "building the network and the method"]
    steps = [[f"epoch {epoch}, step {step} of 2" for step in (1, 2)] for epoch in (1, 2)]
    test = "evaluating, sample 0 of 500"
    assert found[2:10] == [*steps[0], test, *steps[1], test, test, "auditing the labels"]
    assert found[10] == "evaluating, sample 0 of 1,297"
    assert found[11:-1] == [f"quick model, step {step:,} of 900" for step in range(1, 901)]
    assert found[-1] == "neighbours, sample 1,000 of 1,000"


@pytest.mark.parametrize("quiet", [False, True])
def test_work_of_unknown_length_is_named_on_a_terminal(
    quiet: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for terminal in ("", "1"):
        monkeypatch.setenv("FORCE_COLOR", terminal)
        with working("reading the data", quiet):
            pass
        assert ("reading the data" in capsys.readouterr().err) == (bool(terminal) and not quiet)


def test_each_kind_of_work_has_a_bar() -> None:
    bar = Progress(disable=True)
    show = on_bars(bar)
    show("reading, image", 1, 2)
    show("reading, image", 2, 2)
    show("quick model, step", 7, 900, "slow")
    found = [(task.description, task.completed, task.total, task.fields["note"]) for task in bar.tasks]
    assert found == [("reading, image", 2, 2, ""), ("quick model, step", 7, 900, "slow")]
