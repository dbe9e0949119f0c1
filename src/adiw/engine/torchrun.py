"""Training under torchrun: the process group, the device of each process, DistributedDataParallel, and errors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from adiw.distributed.process_group import Processes, is_initialized

_store: Any = None  # the key-value store of the process group, while there is one


def started_by_torchrun() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ


@contextmanager
def process_group() -> Iterator[None]:
    """Initialise the process group under torchrun; without torchrun, do nothing.

    If several processes fail, only the first one raises its error; the others exit with code 1.
    """
    global _store
    if not started_by_torchrun():
        yield
        return
    # gloo in every case: GPU runs also exchange CPU tensors.
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
    _store, rank, size = next(dist.rendezvous("env://"))  # type: ignore[attr-defined]
    dist.init_process_group(backend, store=_store, rank=rank, world_size=size)
    try:
        yield
        dist.destroy_process_group()  # not after an error: it would wait for the other processes
    except Exception:
        if is_first_failure():
            raise
        raise SystemExit(1) from None
    finally:
        _store = None


def is_first_failure() -> bool:
    """Whether this failed process was the first to fail: it then reports the error for all processes."""
    if _store is None:
        return True
    try:
        rank = os.environ["RANK"]
        return bool(_store.compare_set("first to fail", "", rank) == rank.encode())
    except RuntimeError:  # torchrun, which hosts the store, has ended
        return True


def is_connection_loss(error: RuntimeError) -> bool:
    """Whether PyTorch raised this error because another process of the group has ended.

    >>> is_connection_loss(RuntimeError("[gloo/transport/tcp/pair.cc:537] Read error: Connection reset by peer"))
    True
    """
    text = str(error)
    return isinstance(error, dist.DistError) or "gloo" in text or "NCCL" in text


def local_device(requested: torch.device | None) -> torch.device | None:
    """The device of this process: the requested one, or under torchrun the GPU with the process's local rank."""
    if not started_by_torchrun() or not torch.cuda.is_available():
        return requested
    if requested is not None and requested.type == "cpu":
        return requested
    local_rank, processes = (int(os.environ[name]) for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    index = None if requested is None else requested.index
    if index is not None and processes > 1:
        raise ValueError(f"device {requested} is one GPU, but each of {processes} processes needs its own: use cuda")
    if processes > torch.cuda.device_count():
        raise ValueError(
            f"torchrun started {processes} processes here, but PyTorch finds {torch.cuda.device_count()} GPUs: "
            "start at most one process per GPU, or add --device cpu"
        )
    device = torch.device("cuda", local_rank if index is None else index)
    torch.cuda.set_device(device)
    return device


def sync_batch_norm(model: nn.Module, device: torch.device, processes: Processes) -> nn.Module:
    """The model with batch norm over the samples of all processes; the names in its state_dict do not change."""
    norms = [name for name, module in model.named_modules() if isinstance(module, _BatchNorm)]
    if processes.size == 1 or not norms:
        return model
    if device.type != "cuda":
        raise ValueError(
            f"the network has batch norm ({norms[0]}), which PyTorch synchronises on GPUs only: on the CPU train in "
            "one process, or choose a network without it, such as mlp or lenet5"
        )
    converted: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    return converted


def data_parallel(model: nn.Module, device: torch.device) -> nn.Module:
    """The model in DistributedDataParallel, or the model itself where there is no process group."""
    if not is_initialized():
        return model
    return DistributedDataParallel(model, device_ids=[device] if device.type == "cuda" else None)
