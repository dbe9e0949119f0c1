"""When the service for a shared GPU is started, with a command that stands in for NVIDIA's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from adiw.experiments.shared_gpu import CONTROL, PIPES, shared_gpu


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The calls of the service's command: arguments, input, and whether its folder exists."""
    command, log = tmp_path / CONTROL, tmp_path / "log"
    command.write_text(f'#!/bin/sh\necho "$*$(cat)" >> {log}\n[ -d "${PIPES}" ]\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv(PIPES, raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    return log


def test_it_runs_within_the_context_only(log: Path) -> None:
    folders: list[Path] = []

    def work() -> None:
        with shared_gpu(2):
            folders.append(Path(os.environ[PIPES]))
            assert folders[0].is_dir()
            assert log.read_text() == "-d\n"
            raise KeyError

    with pytest.raises(KeyError):
        work()
    assert log.read_text() == "-d\nquit\n"
    assert PIPES not in os.environ
    assert not folders[0].exists()


def test_one_process_several_gpus_and_a_choice_of_the_user_need_none(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shared_gpu(1):
        assert PIPES not in os.environ
    for name, value in ((PIPES, "elsewhere"), ("CUDA_VISIBLE_DEVICES", "1")):
        with monkeypatch.context() as changed:
            changed.setenv(name, value)
            with shared_gpu(2):
                assert os.environ[name] == value
    for gpus in (0, 2):
        monkeypatch.setattr(torch.cuda, "device_count", lambda gpus=gpus: gpus)
        with shared_gpu(2):
            assert PIPES not in os.environ
    assert not log.exists()


def test_where_it_does_not_start_processes_take_turns(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (log.parent / CONTROL).write_text("#!/bin/sh\nexit 1\n")
    with shared_gpu(2):
        assert PIPES not in os.environ
    monkeypatch.setenv("PATH", str(log.parent / "nowhere"))
    with shared_gpu(2):
        assert PIPES not in os.environ
