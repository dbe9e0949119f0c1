"""What torchrun's variables mean for a process: its device, its group, and whether it may speak."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from adiw.engine import launch
from adiw.engine.launch import first_to_fail, launched, linked, lost, own_device
from tests.several import under_torchrun

CPU, GPU = torch.device("cpu"), torch.device("cuda")


def test_a_process_that_was_started_otherwise_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")  # a scheduler's variable alone says nothing
    assert not launched()
    with linked():
        assert not dist.is_initialized()
    assert first_to_fail()
    assert own_device(GPU) == GPU


def test_linked_processes_have_a_group_until_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    under_torchrun(monkeypatch)
    with linked():
        assert dist.get_world_size() == 1
    assert not dist.is_initialized()


def fail_as(rank: int, store: dist.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail in a linked process that writes to this store."""
    under_torchrun(monkeypatch)
    with linked():
        dist.destroy_process_group()
        launch._store = store
        monkeypatch.setenv("RANK", str(rank))
        assert first_to_fail() == first_to_fail()  # however often it is asked
        raise ZeroDivisionError


def test_the_first_to_fail_speaks_and_the_others_are_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    store = dist.HashStore()
    with pytest.raises(ZeroDivisionError):
        fail_as(1, store, monkeypatch)
    with pytest.raises(SystemExit):
        fail_as(0, store, monkeypatch)
    assert launch._store is None


def test_a_store_that_has_gone_does_not_silence_anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone:
        def compare_set(self, *given: str) -> bytes:
            raise dist.DistNetworkError("connection refused")

    monkeypatch.setattr(launch, "_store", Gone())
    monkeypatch.setenv("RANK", "0")
    assert first_to_fail()


def test_a_lost_connection_is_told_from_a_mistake() -> None:
    assert lost(dist.DistBackendError("NCCL error"))
    assert not lost(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


def test_every_process_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    under_torchrun(monkeypatch, rank=1, size=2)
    assert own_device(None) == own_device(GPU) == torch.device("cuda", 1)
    assert chosen == [torch.device("cuda", 1)] * 2
    assert own_device(CPU) == CPU
    with pytest.raises(ValueError, match="device cuda:1 is one GPU, but each of 2 processes has its own: say cuda"):
        own_device(torch.device("cuda", 1))
    under_torchrun(monkeypatch, rank=1, size=4)
    with pytest.raises(
        ValueError, match=r"torchrun started 4 processes here, but PyTorch finds 2 GPUs: .* --device cpu"
    ):
        own_device(None)
