"""Progress: the stages of a run, and lines where there is no terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from adiw.cli.console import TimedLines
from adiw.experiments import training_run
from adiw.experiments.run import Engine, run
from adiw.experiments.settings import resolve


def test_lines_are_printed_no_more_often_than_asked(capsys: pytest.CaptureFixture[str]) -> None:
    TimedLines(quiet=False, seconds=1000).tell("too early")
    TimedLines(quiet=True, seconds=0).tell("quiet")
    lines = TimedLines(quiet=False, seconds=0)
    lines.tell("epoch 1 of 3")
    assert capsys.readouterr().err == "adiw: epoch 1 of 3\n"


def test_a_run_says_what_it_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_run, "BETWEEN", -1.0)  # every step
    found: list[str] = []
    settings = resolve({"epochs": 2, "batch": 512, "trusted": 50})
    run(settings, tmp_path, engine=Engine(torch.device("cpu"), stage=found.append))
    assert found[:2] == ["reading the data", "building the network and the method"]
    assert found[2:-1] == [f"epoch {epoch}, step {step} of 2" for epoch in (1, 2) for step in (1, 2)]
    assert found[-1] == "auditing the labels"
