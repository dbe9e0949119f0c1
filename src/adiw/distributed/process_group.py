"""The processes that train together: each has a part of the batch, and all estimate the weights of the whole."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

# The name that PyTorch 2.13 prefers, where there is one.
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


class ProcessGroup:
    """Gathers what the others have, a few kilobytes a step. A process alone is a team of one and gathers nothing.

    Args:
        group: PyTorch's process group; None for all processes, once ``torch.distributed`` is initialised.

    >>> ProcessGroup().gather(torch.tensor([1, 2]), fill=0)
    tensor([1, 2])
    """

    def __init__(self, group: Any = None) -> None:
        self.group = group
        self.capacity: int | None = None  # samples that each process sends, known after the first step
        self.checked = False

    @property
    def linked(self) -> bool:
        """Whether there is a process group, be it of one process."""
        return dist.is_available() and dist.is_initialized()

    @property
    def size(self) -> int:
        """Processes in the team."""
        return dist.get_world_size(self.group) if self.linked else 1

    @property
    def rank(self) -> int:
        return dist.get_rank(self.group) if self.size > 1 else 0

    def part(self, count: int) -> range:
        """This process's part of ``count`` things: parts follow one another and differ by at most one in length.

        >>> ProcessGroup().part(5)
        range(0, 5)
        """
        return range(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def prepare(self, count: int, like: Tensor) -> bool:
        """Agree on how many samples each process sends; true in the first step of a team, for what starts there."""
        self._check_linked()
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

    def add(self, tensors: Iterable[Tensor]) -> None:
        """Let each tensor become the sum of all processes' ones, in place."""
        if self.size > 1:
            for tensor in tensors:
                self._run(dist.all_reduce, tensor)

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process. All of them have to ask."""
        if self.size == 1:
            return flag
        flags: list[Any] = [None] * self.size
        self._run(dist.all_gather_object, flags, flag)
        return any(flags)

    def wait(self) -> None:
        """Until all processes are here."""
        self.any(False)

    def share(self, tensors: Iterable[Tensor]) -> None:
        """Let all processes have the first one's values."""
        for tensor in tensors:
            self._run(dist.broadcast, tensor, self._first)

    def share_object(self, value: Any) -> Any:
        """The first process's ``value``, for all."""
        if self.size == 1:
            return value
        values = [value]
        self._run(dist.broadcast_object_list, values, self._first)
        return values[0]

    def share_state(self, module: nn.Module) -> None:
        """Let all processes have the first one's state of ``module``: its tensors and what it keeps beside them."""
        state = module.state_dict()
        self.share(value for value in state.values() if isinstance(value, Tensor))
        beside = io.BytesIO()  # written as a file is, so that it is read on the host, whatever device it was on
        torch.save({key: value for key, value in state.items() if not isinstance(value, Tensor)}, beside)
        found = io.BytesIO(self.share_object(beside.getvalue()))
        if self.rank > 0:
            module.load_state_dict({**state, **torch.load(found, map_location="cpu", weights_only=True)})

    @property
    def _first(self) -> int:
        """The first process of the group, in the numbers of all."""
        return 0 if self.group is None else dist.get_global_rank(self.group, 0)

    def _check_linked(self) -> None:
        """A launcher's processes that were never linked would each train alone, and nobody would notice."""
        if self.checked or self.linked:
            return
        started = int(os.environ.get("WORLD_SIZE", "1")) if "TORCHELASTIC_RUN_ID" in os.environ else 1
        if started > 1:
            raise RuntimeError(
                f"torchrun started {started} processes, but they are not linked: call "
                "torch.distributed.init_process_group() and wrap the model in DistributedDataParallel first"
            )
        self.checked = True

    def _run(self, operation: Any, *arguments: Any, **options: Any) -> None:
        try:
            operation(*arguments, group=self.group, **options)
        except RuntimeError as error:
            raise RuntimeError(
                "another process did not take part in this step. Do all processes have the same number of batches? "
                "Use drop_last=True, a DistributedSampler, which pads, or adiw.together(loader), which ends for all "
                "at once; the first error of the other process, if there is one, says more "
                f"({str(error).strip().splitlines()[0]})"
            ) from error
