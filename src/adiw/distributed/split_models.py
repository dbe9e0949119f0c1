"""Models whose parameters are split over several processes (``fully_shard``, tensor parallelism)."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch import nn

SPLIT = {"FSDPModule", "FullyShardedDataParallel"}  # by name, because importing them takes long


def check_whole(model: nn.Module, what: str) -> None:
    """Raise if a process has only a part of the model: its forward pass then waits for the other processes.

    >>> check_whole(nn.Linear(2, 3), "an audit")
    """
    kinds = {kind.__name__ for module in model.modules() for kind in type(module).__mro__}
    several = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
    if several and (kinds & SPLIT or groups_of(model)):
        raise ValueError(
            f"{what} runs the model, which is split over several processes: save its whole state with "
            "torch.distributed.checkpoint.state_dict.get_model_state_dict(model, "
            "options=StateDictOptions(full_state_dict=True)), and evaluate a model in one process that loads it"
        )


def groups_of(model: nn.Module | None) -> list[Any]:
    """PyTorch's process groups over which parameters of the model are split, in the same order in all processes."""
    meshes: list[Any] = []
    for parameter in () if model is None else model.parameters():
        mesh = getattr(parameter, "device_mesh", None)  # of a DTensor, whose import takes long
        if mesh is not None and mesh.size() > 1 and mesh not in meshes:
            meshes.append(mesh)
    return [group for mesh in meshes for group in mesh.get_all_groups()]
