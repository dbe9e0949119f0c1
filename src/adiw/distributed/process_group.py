"""The processes that train together: each has a part of the batch, and all estimate the weights of the whole batch.

``Processes`` is one process; ``ProcessGroup`` has the same methods, so that no step branches on their number.
"""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from adiw.distributed.agreement import Found, describe_difference, form_of
from adiw.distributed.split_models import groups_of

T = TypeVar("T")

# From PyTorch 2.13 on, all_gather_into_tensor is called all_gather_single.
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor


def is_initialized() -> bool:
    """Whether ``torch.distributed`` has a process group, possibly of one process."""
    return dist.is_available() and dist.is_initialized()


def current_processes(group: Any = None) -> Processes:
    """The processes of ``group`` (None: the default group), or a single process without a process group."""
    if not is_initialized() or dist.get_world_size(group) == 1:
        return Processes()
    return ProcessGroup(dist.get_world_size(group), dist.get_rank(group), group)


class Processes:
    """The processes that train together: here a single one, in which every collective returns its argument.

    >>> Processes().gather([torch.tensor([1, 2])], fills=[0])
    [tensor([1, 2])]
    """

    size, rank = 1, 0

    @property
    def offset(self) -> int:
        """The first of this process's rows in what ``gather`` returns."""
        return 0

    def start(self, method: nn.Module, batch: Tensor, model: nn.Module | None = None, largest: int = 0) -> bool:
        """Prepare the first step. Returns whether several processes start here."""
        launched = int(os.environ.get("WORLD_SIZE", "1")) if "TORCHELASTIC_RUN_ID" in os.environ else 1
        if launched > 1 and not is_initialized():  # else each process would silently train on its own
            raise RuntimeError(
                f"torchrun started {launched} processes, but they have no process group: call "
                "torch.distributed.init_process_group() and wrap the model in DistributedDataParallel first"
            )
        return share_state(method, groups_of(model))

    def share_error(self, error: Exception, device: torch.device) -> None:
        """Before this process raises an error, and before ``start`` or ``gather``: let all others raise one too."""

    def gather(self, columns: Sequence[Any], fills: Sequence[float], rows: int | None = None) -> Sequence[Any]:
        """The rows of all processes, (size * rows, ...), for each column (n, ...); None stays None.

        Each process's part is padded to ``rows`` with the column's fill.
        """
        return columns

    def split(self, values: Tensor) -> Tensor:
        """This process's part of ``values`` (n, ...), which all processes have.

        All parts have the same length: parts that would be shorter repeat the last value.
        """
        return values

    def join(self, columns: Sequence[Any], count: int) -> Sequence[Any]:
        """The ``count`` rows of each column, from the parts that ``split`` made; None stays None."""
        return columns

    def split_weights(self, count: int, device: torch.device) -> Tensor | float:
        """Weights u of this process's part such that mean(u x), summed over processes, is the mean of x.

        They are zero for the rows that ``split`` repeats.
        """
        return 1.0

    def divisor(self, num_samples: int | Tensor) -> float | Tensor:
        """What this process divides a sum over its samples by, for the mean over the samples of all processes.

        DistributedDataParallel averages gradients over the processes. The average of the processes' parts is the mean
        over all samples, also if the processes have different numbers of samples.
        """
        return num_samples

    def sum_(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by its sum over all processes."""

    def gather_object(self, value: T) -> list[T]:
        """The ``value`` of each process. All processes must call it, as the methods below."""
        return [value]

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process."""
        return flag

    def wait(self) -> None:
        """Wait for all processes."""

    def broadcast_object(self, value: T) -> T:
        """The ``value`` of rank 0."""
        return value

    def part(self, count: int) -> range:
        """This process's part of ``range(count)``: parts are consecutive, and their lengths differ by at most one.

        >>> Processes().part(5)
        range(0, 5)
        """
        return range(count)


class ProcessGroup(Processes):
    """Several processes, which exchange a few kilobytes in each step.

    Args:
        size, rank: the number of processes, and the rank of this one.
        group: PyTorch's process group; None for the default group.
    """

    def __init__(self, size: int, rank: int, group: Any = None) -> None:
        self.size, self.rank, self.group = size, rank, group
        self.capacity: int | None = None  # rows that each process sends, agreed on in the first step
        self.device = torch.device("cpu")  # of the batches, known in the first step
        self.agreed: set[str] = set()  # forms of columns that all processes have had

    @property
    def offset(self) -> int:
        assert self.capacity is not None  # set by start
        return self.rank * self.capacity

    def start(self, method: nn.Module, batch: Tensor, model: nn.Module | None = None, largest: int = 0) -> bool:
        """Agree on the number of rows that each process sends, and copy rank 0's state of ``method`` to all.

        It is that of the largest ``batch``, or ``largest`` if later batches may be larger. Processes that have parts
        of ``model`` get the state as well, also those of other groups (tensor-parallel ones).
        """
        self.device = batch.device
        self._agree([batch], self.device)
        rows = torch.tensor(max(len(batch), largest), device=batch.device)
        self._run(dist.all_reduce, rows, op=dist.ReduceOp.MAX)
        self.capacity = int(rows)
        self.broadcast_state(method)
        share_state(method, groups_of(model))
        return True

    def share_error(self, error: Exception, device: torch.device) -> None:
        self._agree(error, device)

    def _agree(self, found: Found, device: torch.device) -> None:
        """Raise an error unless all processes have columns of the same form, or all an error, which each raises.

        The comparison reads from the device. On a GPU it is left out once a form is known to be that of all; a later
        error there ends its own process, and torchrun the others.
        """
        form, failed = form_of(found), isinstance(found, Exception)
        if device.type != "cpu" and (bool(self.agreed) if failed else form in self.agreed):
            return
        code = zlib.crc32(form.encode())
        extremes = torch.tensor([code, -code], device=device)
        self._run(dist.all_reduce, extremes, op=dist.ReduceOp.MAX)
        if int(extremes[0]) == -int(extremes[1]):
            self.agreed.add(form)
            return
        forms: list[Any] = [None] * self.size
        self._run(dist.all_gather_object, forms, (form, failed))
        if not failed:
            raise RuntimeError(describe_difference(forms))

    def gather(self, columns: Sequence[Any], fills: Sequence[float], rows: int | None = None) -> Sequence[Any]:
        rows = self.capacity if rows is None else rows
        assert rows is not None  # set by start
        self._check_columns(columns, rows)
        return [self._gather(column, fill, rows) for column, fill in zip(columns, fills, strict=True)]

    def _gather(self, column: Tensor | None, fill: float, rows: int) -> Tensor | None:
        if column is None:
            return None
        padded = column.new_full((rows, *column.shape[1:]), fill)
        padded[: len(column)] = column
        gathered = column.new_empty((self.size * rows, *column.shape[1:]))
        self._run(_all_gather, gathered, padded)
        return gathered

    def _check_columns(self, columns: Sequence[Tensor | None], rows: int) -> None:
        """Raise an error in all processes if one has more than ``rows`` rows, or columns of another form."""
        given = [column for column in columns if column is not None]
        device = given[0].device if given else self.device
        if any(len(column) > rows for column in given):
            error = ValueError(
                f"this batch has {len(given[0])} samples, but the largest first batch of all processes had "
                f"{rows}: later batches may be smaller, not larger"
            )
            self.share_error(error, device)
            raise error
        self._agree(columns, device)

    def split(self, values: Tensor) -> Tensor:
        return values[self._positions(len(values), values.device).clamp_max(len(values) - 1)]

    def join(self, columns: Sequence[Any], count: int) -> Sequence[Any]:
        joined = self.gather(columns, [0] * len(columns), -(-count // self.size))
        return [column if column is None else column[:count] for column in joined]

    def split_weights(self, count: int, device: torch.device) -> Tensor | float:
        positions = self._positions(count, device)
        return (positions < count).double() * (len(positions) / count)

    def _positions(self, count: int, device: torch.device) -> Tensor:
        rows = -(-count // self.size)
        return torch.arange(self.rank * rows, (self.rank + 1) * rows, device=device)

    def divisor(self, num_samples: int | Tensor) -> float | Tensor:
        return torch.as_tensor(num_samples).clamp_min(1) / self.size

    def sum_(self, tensors: Iterable[Tensor]) -> None:
        for tensor in tensors:
            self._run(dist.all_reduce, tensor)

    def gather_object(self, value: T) -> list[T]:
        values: list[Any] = [None] * self.size
        self._run(dist.all_gather_object, values, value)
        return values

    def any(self, flag: bool) -> bool:
        return any(self.gather_object(flag))

    def wait(self) -> None:
        self.gather_object(None)

    def broadcast_object(self, value: T) -> T:
        values = [value]
        self._run(dist.broadcast_object_list, values, self._first)
        return values[0]

    def broadcast_state(self, module: nn.Module) -> None:
        """Give all processes rank 0's state of ``module``: its tensors and its extra state."""
        state = module.state_dict()
        for value in state.values():
            if isinstance(value, Tensor):
                self._run(dist.broadcast, value, self._first)
        extra = io.BytesIO()  # serialised, so that its tensors can be loaded to the CPU from any device
        torch.save({key: value for key, value in state.items() if not isinstance(value, Tensor)}, extra)
        received = io.BytesIO(self.broadcast_object(extra.getvalue()))
        if self.rank > 0:
            module.load_state_dict({**state, **torch.load(received, map_location="cpu", weights_only=True)})

    def part(self, count: int) -> range:
        return range(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    @property
    def _first(self) -> int:
        """The global rank of the group's rank 0."""
        return 0 if self.group is None else dist.get_global_rank(self.group, 0)

    def _run(self, operation: Any, *arguments: Any, **options: Any) -> None:
        try:
            operation(*arguments, group=self.group, **options)
        except RuntimeError as error:
            raise RuntimeError(
                "another process did not take part in this step. Do all processes have the same number of batches? "
                "Use drop_last=True, a DistributedSampler, which pads, or adiw.together(loader), which ends in the "
                "same step in all processes. If another process raised an error first, read that one "
                f"({str(error).strip().splitlines()[0]})"
            ) from error


def share_state(method: nn.Module, groups: Sequence[Any]) -> bool:
    """Copy the state of ``method`` from the first process of each group. Returns whether there is a group."""
    for group in groups:
        ProcessGroup(dist.get_world_size(group), dist.get_rank(group), group).broadcast_state(method)
    return bool(groups)
