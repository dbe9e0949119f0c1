"""A process group of threads in one process, for the tests: collectives without processes or a backend."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from adiw.distributed.process_group import ProcessGroup

Result = TypeVar("Result")


class Meeting:
    """Where the threads exchange values.

    Only the one that holds ``baton`` works: two threads that ask PyTorch for its default generator at the same time
    may wait for each other for ever.
    """

    def __init__(self, size: int) -> None:
        self.table: list[Any] = [None] * size
        self.barrier = threading.Barrier(size, timeout=60)
        self.baton = threading.Lock()

    def exchange(self, rank: int, value: Any) -> list[Any]:
        self.table[rank] = value
        self._meet()
        seen = list(self.table)
        self._meet()
        return seen

    def _meet(self) -> None:
        self.baton.release()
        try:
            self.barrier.wait()
        finally:
            self.baton.acquire()


class Teammate(ProcessGroup):
    """A process group whose collectives go through a meeting; everything else is the real class."""

    def __init__(self, rank: int, meeting: Meeting) -> None:
        super().__init__(size=len(meeting.table), rank=rank)
        self.meeting = meeting

    def _run(self, operation: Any, *arguments: Any, **options: Any) -> None:
        if operation is dist.broadcast_object_list:
            arguments[0][:] = self.meeting.exchange(self.rank, list(arguments[0]))[0]
            return
        target, own = arguments[0], arguments[-1] if len(arguments) > 1 else arguments[0]
        sent = own if isinstance(own, torch.Tensor) else target
        seen = self.meeting.exchange(self.rank, sent.clone())
        if operation is dist.all_reduce:
            most = options.get("op") == dist.ReduceOp.MAX
            target.copy_(torch.stack(seen).amax(0) if most else torch.stack(seen).sum(0))
        elif operation is dist.broadcast:
            target.copy_(seen[0])
        else:
            target.copy_(torch.cat(seen))


def together(size: int, work: Callable[[Teammate], Result]) -> list[Result]:
    """What ``work`` returns in each thread of a group."""
    meeting = Meeting(size)

    def one(rank: int) -> Result:
        with meeting.baton:
            return work(Teammate(rank, meeting))

    with ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(one, rank) for rank in range(size)]
    return [future.result() for future in futures]
