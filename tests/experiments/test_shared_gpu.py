"""When the service for a shared GPU is started, with a command that stands in for NVIDIA's."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from adiw.cli.sweep import Where
from adiw.experiments.recipes import Part, plan
from adiw.experiments.shared_gpu import CONTROL, PIPES, processes_to_share, shared_gpu
from adiw.experiments.training_run import Engine
from tests.experiments.small_sweeps import small, sweep


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
    with shared_gpu(2) as shared:
        assert not shared
        assert PIPES not in os.environ
    monkeypatch.setenv("PATH", str(log.parent / "nowhere"))
    with shared_gpu(2) as shared:
        assert not shared
        assert PIPES not in os.environ


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int, str], None]:
    """Set the number of cores, and what the driver answers: the free memory in units of 2^20 bytes."""

    def change(cores: int, answer: str) -> None:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
        command = tmp_path / "nvidia-smi"
        command.write_text(f"#!/bin/sh\necho '{answer}'\n")
        command.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    return change


def test_small_networks_share_a_gpu_and_others_do_not(machine: Callable[[int, str], None]) -> None:
    machine(16, "70000")
    assert processes_to_share(["lenet5"] * 40) == 12
    assert processes_to_share(["lenet5", "mlp", "mlp"]) == 3
    assert processes_to_share(["lenet5", "resnet18"]) == 1
    assert processes_to_share([]) == 1


@pytest.mark.parametrize(
    ("cores", "answer", "expected"),
    [(2, "70000", 2), (16, "11000", 5), (16, "1000", 1), (16, "[N/A]", 12), (16, "", 12)],
)
def test_each_process_has_a_core_and_memory(
    machine: Callable[[int, str], None], cores: int, answer: str, expected: int
) -> None:
    machine(cores, answer)
    assert processes_to_share(["mlp"] * 40) == expected


@pytest.mark.parametrize(
    ("given", "share", "starts", "expected"),
    [
        (None, None, True, 3),
        (None, None, False, 1),
        (None, 1 / 2, True, 2),
        (None, 1 / 2, False, 2),
        (None, 1.0, True, 1),
        (4, None, True, 4),
        (4, None, False, 4),
    ],
)
def test_a_sweep_on_one_gpu_takes_several_processes_where_they_can_share_it(
    log: Path,
    machine: Callable[[int, str], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: int | None,
    share: float | None,
    starts: bool,
    expected: int,
) -> None:
    if not starts:
        (log.parent / CONTROL).write_text("#!/bin/sh\nexit 1\n")
    machine(3, "70000")
    monkeypatch.setattr(Engine, "resolve_device", lambda self: torch.device("cuda"))
    recipe = small(tmp_path)
    work = sweep(recipe, tmp_path / "out")
    work.engine = Engine()
    with Where("local", given, share, 0).open(work, plan(recipe, Part())) as executor:
        assert work.processes == expected
        assert (executor is None) == (expected == 1)
