"""Copies of a network in several processes: what becomes of batch norm, and of a process alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from adiw.distributed.process_group import ProcessGroup
from adiw.engine.replica import replica, synchronised
from tests.several import group_of_one

CPU, GPU = torch.device("cpu"), torch.device("cuda")


class Two(ProcessGroup):
    size = 2  # type: ignore[assignment]


def with_norm() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))


def test_batch_norm_is_synchronised_on_gpus_under_the_same_names() -> None:
    model = with_norm()
    names = list(model.state_dict())
    converted = synchronised(model, GPU, Two())
    assert isinstance(converted.get_submodule("1"), nn.SyncBatchNorm)
    assert list(converted.state_dict()) == names


def test_batch_norm_on_the_cpu_is_refused() -> None:
    with pytest.raises(ValueError, match=r"batch norm \(1\), which PyTorch .* GPUs only: .* mlp or lenet5"):
        synchronised(with_norm(), CPU, Two())
    model = nn.Linear(2, 2)
    assert synchronised(model, CPU, Two()) is model


def test_a_process_alone_keeps_its_model() -> None:
    model = with_norm()
    assert synchronised(model, CPU, ProcessGroup()) is model
    assert replica(model, CPU, ProcessGroup()) is model
    with group_of_one():
        wrapped = replica(model, CPU, ProcessGroup())
        assert isinstance(wrapped, DistributedDataParallel)
        assert wrapped.module is model
