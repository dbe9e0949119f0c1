"""Under torchrun: the process group, the device of each process, which process reports an error, DDP, batch norm."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from adiw.distributed.process_group import Processes, ProcessGroup
from adiw.engine import torchrun
from adiw.engine.torchrun import (
    data_parallel,
    is_connection_loss,
    is_first_failure,
    local_device,
    process_group,
    started_by_torchrun,
    sync_batch_norm,
)
from tests.gloo_processes import group_of_one, under_torchrun

CPU, GPU = torch.device("cpu"), torch.device("cuda")


def test_without_torchrun_nothing_is_initialised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")  # other schedulers set it as well as torchrun
    assert not started_by_torchrun()
    with process_group():
        assert not dist.is_initialized()
    assert is_first_failure()
    assert local_device(GPU) == GPU


def test_the_process_group_is_destroyed_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    under_torchrun(monkeypatch)
    with process_group():
        assert dist.get_world_size() == 1
    assert not dist.is_initialized()


def fail_as(rank: int, store: dist.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail in a process with this rank and this store."""
    under_torchrun(monkeypatch)
    with process_group():
        dist.destroy_process_group()
        torchrun._store = store
        monkeypatch.setenv("RANK", str(rank))
        assert is_first_failure() == is_first_failure()  # a second call has the same result
        raise ZeroDivisionError


def test_only_the_first_process_that_fails_raises_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    store = dist.HashStore()
    with pytest.raises(ZeroDivisionError):
        fail_as(1, store, monkeypatch)
    with pytest.raises(SystemExit):
        fail_as(0, store, monkeypatch)
    assert torchrun._store is None


def test_without_its_store_a_process_raises_its_own_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone:
        def compare_set(self, *given: str) -> bytes:
            raise dist.DistNetworkError("connection refused")

    monkeypatch.setattr(torchrun, "_store", Gone())
    monkeypatch.setenv("RANK", "0")
    assert is_first_failure()


def test_a_lost_connection_differs_from_other_errors() -> None:
    assert is_connection_loss(dist.DistBackendError("NCCL error"))
    assert not is_connection_loss(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


def test_the_local_rank_selects_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    under_torchrun(monkeypatch, rank=1, size=2)
    assert local_device(None) == local_device(GPU) == torch.device("cuda", 1)
    assert chosen == [torch.device("cuda", 1)] * 2
    assert local_device(CPU) == CPU
    with pytest.raises(ValueError, match="device cuda:1 is one GPU, but each of 2 processes needs its own: use cuda"):
        local_device(torch.device("cuda", 1))
    under_torchrun(monkeypatch, rank=1, size=4)
    with pytest.raises(
        ValueError, match=r"torchrun started 4 processes here, but PyTorch finds 2 GPUs: .* --device cpu"
    ):
        local_device(None)


TWO = ProcessGroup(size=2, rank=0)


def with_norm() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))


def test_batch_norm_is_synchronised_on_gpus_under_the_same_names() -> None:
    model = with_norm()
    names = list(model.state_dict())
    converted = sync_batch_norm(model, GPU, TWO)
    assert isinstance(converted.get_submodule("1"), nn.SyncBatchNorm)
    assert list(converted.state_dict()) == names


def test_batch_norm_on_the_cpu_is_refused() -> None:
    with pytest.raises(ValueError, match=r"batch norm \(1\), which PyTorch .* GPUs only: .* mlp or lenet5"):
        sync_batch_norm(with_norm(), CPU, TWO)
    model = nn.Linear(2, 2)
    assert sync_batch_norm(model, CPU, TWO) is model


def test_a_single_process_trains_the_model_itself() -> None:
    model = with_norm()
    assert sync_batch_norm(model, CPU, Processes()) is model
    assert data_parallel(model, CPU) is model
    with group_of_one():
        wrapped = data_parallel(model, CPU)
        assert isinstance(wrapped, DistributedDataParallel)
        assert wrapped.module is model
