"""A network of which every process has a copy: gradients are averaged, batch norm sees the whole batch."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from adiw.distributed.process_group import ProcessGroup


def synchronised(model: nn.Module, device: torch.device, processes: ProcessGroup) -> nn.Module:
    """The model, its batch norm over the samples of all processes; the names in its state stay as they are."""
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


def replica(model: nn.Module, device: torch.device, processes: ProcessGroup) -> nn.Module:
    """What a training pass goes through: the model itself, or a wrapper that averages its gradients over the team."""
    if not processes.linked:
        return model
    return DistributedDataParallel(model, device_ids=[device] if device.type == "cuda" else None)
