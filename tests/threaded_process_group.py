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


class Exchange:
    """Lets the threads exchange values.

    Only the thread that holds ``lock`` runs: two threads that use PyTorch's default generator at the same time may
    deadlock.
    """

    def __init__(self, size: int) -> None:
        self.values: list[Any] = [None] * size
        self.barrier = threading.Barrier(size, timeout=60)
        self.lock = threading.Lock()

    def all_gather(self, rank: int, value: Any) -> list[Any]:
        self.values[rank] = value
        self._wait()
        gathered = list(self.values)
        self._wait()
        return gathered

    def _wait(self) -> None:
        self.lock.release()
        try:
            self.barrier.wait()
        finally:
            self.lock.acquire()


class ThreadedProcessGroup(ProcessGroup):
    """A process group whose collectives use an ``Exchange``; everything else is the real class."""

    def __init__(self, rank: int, exchange: Exchange) -> None:
        super().__init__(size=len(exchange.values), rank=rank)
        self.exchange = exchange

    def _run(self, operation: Any, *arguments: Any, **options: Any) -> None:
        if operation is dist.broadcast_object_list:
            arguments[0][:] = self.exchange.all_gather(self.rank, list(arguments[0]))[0]
            return
        target, own = arguments[0], arguments[-1] if len(arguments) > 1 else arguments[0]
        sent = own if isinstance(own, torch.Tensor) else target
        gathered = self.exchange.all_gather(self.rank, sent.clone())
        if operation is dist.all_reduce:
            largest = options.get("op") == dist.ReduceOp.MAX
            target.copy_(torch.stack(gathered).amax(0) if largest else torch.stack(gathered).sum(0))
        elif operation is dist.broadcast:
            target.copy_(gathered[0])
        else:
            target.copy_(torch.cat(gathered))


def in_threads(size: int, work: Callable[[ThreadedProcessGroup], Result]) -> list[Result]:
    """Run ``work`` in each thread of a group. Returns the result of each."""
    exchange = Exchange(size)

    def one(rank: int) -> Result:
        with exchange.lock:
            return work(ThreadedProcessGroup(rank, exchange))

    with ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(one, rank) for rank in range(size)]
    return [future.result() for future in futures]
