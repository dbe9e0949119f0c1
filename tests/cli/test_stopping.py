"""Real processes that are stopped or killed, and resumed to the same result."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from adiw.cli.console import StopRequest, one_line_errors
from adiw.engine import checkpoint
from adiw.experiments.run import run
from adiw.experiments.settings import HOLD_OUT, resolve
from adiw.experiments.training_run import Engine
from tests.cli.conftest import Command
from tests.cli.images import write_images, write_module

EPOCHS = 12
CPU = torch.device("cpu")


def saved_epoch(folder: Path) -> int:
    state = checkpoint.load(folder, CPU)
    assert state is not None
    return int(state["epoch"])


def test_a_stopped_terminated_or_killed_run_resumes_to_the_same_files(
    adiw: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nine steps are an epoch; the network sends the signal at a step of its own process."""
    write_module(tmp_path, "signal_network")
    options = ["--method", "adiw-kl", "--model", "signal_network:signalling", "--epochs", EPOCHS, "--out", "r"]
    given = {
        "method": "adiw-kl",
        "model": "signal_network:signalling",
        "epochs": EPOCHS,
        "hold_out": HOLD_OUT,
        "cautious": True,
    }
    run(resolve(given), tmp_path / "whole", engine=Engine(CPU))

    # (the step of its process in which it is asked, where it stops, the arguments that resume it)
    for number, step, where, more in (
        (signal.SIGINT, 23, "step 5 of epoch 3", []),
        (signal.SIGTERM, 6, "step 2 of epoch 4", ["--resume"]),
        (signal.SIGUSR1, 16, "step 9 of epoch 5", ["--resume"]),  # before its evaluation
    ):
        monkeypatch.setenv("SIGNAL", str(int(number)))
        monkeypatch.setenv("SIGNAL_STEP", str(step))
        output = adiw("run", *options, *more)
        assert (output.code, output.out) == (130, "")
        assert output.err.split("\n") == [
            "",
            "adiw: stopping after this step (again to stop immediately)",
            f"adiw: stopped after {where} of {EPOCHS}; continue with --resume",
            "",
        ]
        assert not (tmp_path / "r" / "result.json").exists()

    killed = subprocess.run(
        [sys.executable, "-m", "adiw", "run", *map(str, options), "--resume"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "OMP_NUM_THREADS": "1", "SIGNAL": str(int(signal.SIGKILL)), "SIGNAL_STEP": "25"},
    )
    assert (killed.returncode, killed.stdout, killed.stderr) == (-signal.SIGKILL, "", "")
    assert (tmp_path / "r" / "metrics.jsonl").read_text().count("\n") == 7  # three epochs more, none of them saved
    assert saved_epoch(tmp_path / "r") == 4

    monkeypatch.delenv("SIGNAL_STEP")
    assert adiw("run", *options, "--resume").code == 0
    for name in ("metrics.jsonl", "weights.npy", "weight_history.npy", "labels.npy"):
        assert (tmp_path / "r" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    best, expected = (checkpoint.load(tmp_path / name, CPU)["best"] for name in ("r", "whole"))  # type: ignore[index]
    assert best["row"] == expected["row"]
    assert all(torch.equal(tensor, expected["model"][key]) for key, tensor in best["model"].items())


def test_a_signal_may_also_reach_the_workers(tmp_path: Path) -> None:
    """As Ctrl-C in a terminal, and the signals of SLURM."""
    write_images(tmp_path / "img", train=10)
    write_module(tmp_path, "slow_images")
    arguments = [
        *("--dataset", "imagefolder", "--path", "img", "--model", "slow_images:slow", "--trusted", "12"),
        *("--method", "adiw-kl", "--batch", "8", "--epochs", "1000", "--workers", "2", "--out", "r"),
        *("--hold-out", "0"),
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "adiw", "run", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    ) as running:
        deadline = time.monotonic() + 60
        while not (metrics := tmp_path / "r" / "metrics.jsonl").exists() or not metrics.read_text():
            assert running.poll() is None, running.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.killpg(running.pid, signal.SIGTERM)
        out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, "")
    state = checkpoint.load(tmp_path / "r", CPU)
    assert state is not None
    where = f"epoch {state['epoch']}"
    if "position" in state:
        where = f"step {state['position']['steps']} of epoch {state['epoch'] + 1}"
    assert err.endswith(
        "\nadiw: stopping after this step (again to stop immediately)\n"
        f"adiw: stopped after {where} of 1000; continue with --resume\n"
    )


def test_a_second_signal_ends_it_immediately(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)

    def asked_twice() -> None:
        with one_line_errors(), StopRequest() as stop:
            assert not stop()
            signal.raise_signal(signal.SIGUSR1)
            assert stop()
            signal.raise_signal(signal.SIGINT)
            pytest.fail("the second request must end the run")

    with pytest.raises(SystemExit) as ended:
        asked_twice()
    assert ended.value.code == 130
    assert capsys.readouterr().err.endswith(
        "adiw: stopped immediately; continue from the last checkpoint with --resume\n"
    )
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_the_first_signal_ends_a_run_that_has_nothing_to_save(capsys: pytest.CaptureFixture[str]) -> None:
    def asked_early() -> None:
        with one_line_errors(), StopRequest():
            signal.raise_signal(signal.SIGTERM)
            pytest.fail("nobody has asked whether to stop")

    with pytest.raises(SystemExit) as ended:
        asked_early()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "adiw: stopped before its first step; the same command starts it again\n"


def test_a_worker_that_inherits_the_handler_does_not_run_it(capsys: pytest.CaptureFixture[str]) -> None:
    request = StopRequest()
    with request as stop:
        request.process = -1  # as in a process that was forked from this one
        for number in (signal.SIGINT, signal.SIGUSR1, signal.SIGINT):
            signal.raise_signal(number)
        assert not stop()
    assert capsys.readouterr().err == ""


def test_an_internal_error_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError), one_line_errors():
        1 / 0
