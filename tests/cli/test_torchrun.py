"""``torchrun -m adiw run``: two real processes that are stopped, resumed, and ended by an error in one."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch.distributed as dist

from adiw.cli.console import StopRequest
from adiw.experiments.checked_io import read_lines
from tests.cli.conftest import Command, Output
from tests.gloo_processes import under_torchrun

# A network that sends torchrun a signal, or fails, in the second process and at a given step.
MODULE = """
import os
import signal

import torch
from torch import nn


class Trouble(nn.Sequential):
    steps = 0

    def forward(self, x):
        self.steps += self.training
        if self.training and self.steps == int(os.environ.get("AT", 0)) and os.environ.get("RANK") == "1":
            if os.environ["WHAT"] == "error":
                raise ValueError("process 1 cannot continue")
            os.kill(os.getppid(), signal.SIGTERM)
        return super().forward(x)


def build(input_shape, num_classes):
    return Trouble(nn.Flatten(), nn.Linear(torch.Size(input_shape).numel(), num_classes))
"""
OPTIONS = [
    *("--method", "adiw-kl", "--model", "trouble:build", "--epochs", "5", "--lr", "0.02", "--width", "0.5"),
    *("--trusted", "60", "--hold-out", "0.35", "--val-batch", "31", "--device", "cpu"),
]


@pytest.fixture
def launched(adiw: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command in this process, as torchrun would start a single one."""

    def call(*arguments: object) -> Output:
        under_torchrun(monkeypatch)
        output = adiw(*arguments)
        if dist.is_initialized():  # a failed process does not destroy its group
            dist.destroy_process_group()
        return output

    return call


def torchrun(*arguments: str, **variables: str) -> tuple[int, list[str]]:
    """The exit code of two processes, and their output without torchrun's own lines."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "-m", "adiw", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    lines = (done.stdout + done.stderr).splitlines()
    return done.returncode, [line for line in lines if line.startswith(("adiw:", "files are in"))]


def test_a_run_stopped_under_torchrun_is_resumed_in_one_process(adiw: Command, tmp_path: Path) -> None:
    (tmp_path / "trouble.py").write_text(MODULE)
    code, output = torchrun("run", *OPTIONS, "--out", "r", WHAT="stop", AT="13")  # nine steps are an epoch
    assert code == 1  # torchrun's own, after a signal
    assert output[0].startswith("adiw: stopping after this step")  # torchrun may write on the same line
    assert len(output) == 2
    assert re.fullmatch(r"adiw: stopped after (step \d of )?epoch \d of 5; continue with --resume", output[1])
    assert not (tmp_path / "r" / "result.json").exists()
    assert adiw("run", *OPTIONS, "--out", "r", "--resume").code == 0
    assert adiw("run", *OPTIONS, "--out", "whole").code == 0
    found, expected = (np.load(tmp_path / name / "weights.npy") for name in ("r", "whole"))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
    rows, others = (read_lines(tmp_path / name / "metrics.jsonl") for name in ("r", "whole"))
    for name in ("held_out_accuracy", "held_out_loss"):  # the processes share the 21 held-out samples
        np.testing.assert_allclose([row[name] for row in rows], [row[name] for row in others], rtol=1e-3)


def test_an_error_in_one_process_is_printed_once_and_ends_all(tmp_path: Path) -> None:
    (tmp_path / "trouble.py").write_text(MODULE)
    code, output = torchrun("run", *OPTIONS, "--out", "r", WHAT="error", AT="3")
    assert (code, output) == (1, ["adiw: process 1 cannot continue"])


def test_the_other_commands_work_in_one_process(launched: Command) -> None:
    output = launched("sweep", "fmnist-noise")
    assert (output.code, output.out) == (2, "")
    assert output.err == "adiw: sweep works in one process: use --processes, and start it without torchrun\n"
    assert launched("list").err == "adiw: list works in one process: start it without torchrun\n"


def test_a_single_process_of_torchrun_runs_and_prints_its_errors(launched: Command) -> None:
    output = launched("run", "--epochs", "1", "--trusted", "100", "--out", "r")
    assert (output.code, output.err) == (0, "")
    assert "\nfiles are in r\n" in output.out
    assert re.match("adiw: No such option:? '?--epoch", launched("run", "--epoch", "1").err)


def test_the_loss_of_another_process_is_an_error_in_one_line(
    launched: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*given: object) -> None:
        raise RuntimeError("[gloo/transport/tcp/pair.cc:537] Connection reset by peer")

    monkeypatch.setattr("adiw.cli.run.run_experiment", gone)
    output = launched("run", "--out", "r")
    assert output.code == 130
    assert (
        output.err == "adiw: another process of this run has ended; continue from the last checkpoint with --resume\n"
    )


def test_a_second_signal_under_torchrun_does_not_end_the_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    under_torchrun(monkeypatch)
    with StopRequest() as stop:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert stop()
    assert capsys.readouterr().err == "\nadiw: stopping after this step\n"
