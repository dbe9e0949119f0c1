"""The processes that train together: each has a part of the batch, and all estimate the weights of the whole."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

# The name that PyTorch 2.13 prefers, where there is one.
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


class Team:
    """Gathers what the others have, a few kilobytes a step. A process alone is a team of one and gathers nothing.

    Args:
        group: PyTorch's process group; None for all processes, once ``torch.distributed`` is initialised.

    >>> Team().gather(torch.tensor([1, 2]), fill=0)
    tensor([1, 2])
    """

    def __init__(self, group: Any = None) -> None:
        self.group = group
        self.capacity: int | None = None  # samples that each process sends, known after the first step

    @property
    def size(self) -> int:
        """Processes in the team."""
        return dist.get_world_size(self.group) if dist.is_available() and dist.is_initialized() else 1

    @property
    def rank(self) -> int:
        return dist.get_rank(self.group) if self.size > 1 else 0

    def prepare(self, count: int, like: Tensor) -> bool:
        """Agree on how many samples each process sends; true in the first step of a team, for what starts there."""
        if self.size == 1:
            return False
        if self.capacity is None:
            most = torch.tensor(count, device=like.device)
            self._run(dist.all_reduce, most, op=dist.ReduceOp.MAX)
            self.capacity = int(most)
            return True
        if count > self.capacity:
            raise ValueError(
                f"a batch of {count} samples, but the largest first batch of all processes had {self.capacity}: "
                "batches may become smaller, not larger"
            )
        return False

    def gather(self, own: Tensor, fill: float, capacity: int | None = None) -> Tensor:
        """The rows (n, ...) of all processes, (size * capacity, ...), each process's padded with ``fill``."""
        if self.size == 1:
            return own
        capacity = self.capacity if capacity is None else capacity
        assert capacity is not None  # prepare comes first
        padded = own.new_full((capacity, *own.shape[1:]), fill)
        padded[: len(own)] = own
        out = own.new_empty((self.size * capacity, *own.shape[1:]))
        self._run(_all_gather, out, padded)
        return out

    def own(self, whole: Tensor, count: int) -> Tensor:
        """This process's ``count`` rows of what ``gather`` gave."""
        if self.size == 1:
            return whole
        assert self.capacity is not None
        start = self.rank * self.capacity
        return whole[start : start + count]

    def share(self, tensors: Iterable[Tensor]) -> None:
        """Let all processes have the first one's values."""
        for tensor in tensors:
            self._run(dist.broadcast, tensor, 0)

    def share_object(self, value: Any) -> Any:
        """The first process's ``value``, for all."""
        values = [value]
        self._run(dist.broadcast_object_list, values, 0)
        return values[0]

    def _run(self, operation: Any, *arguments: Any, **options: Any) -> None:
        try:
            operation(*arguments, group=self.group, **options)
        except RuntimeError as error:
            raise RuntimeError(
                "another process did not take part in this step. Do all processes have the same number of batches? "
                "Use drop_last=True or a DistributedSampler, which pads; the first error of the other process, if "
                f"there is one, says more ({str(error).strip().splitlines()[0]})"
            ) from error
