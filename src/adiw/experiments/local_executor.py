"""Processes of this machine as an executor, made of the executors of ``concurrent.futures``."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any, Self, TypeVar

import torch

T = TypeVar("T")


def threads_per_process() -> int:
    """Threads of each process: OMP_NUM_THREADS if it is set, otherwise one, which suits small networks."""
    return torch.get_num_threads() if "OMP_NUM_THREADS" in os.environ else 1


def processes_for(device: torch.device, gpus_per_run: float = 1.0) -> int:
    """How many processes use the whole machine: one per GPU, or part of it; on the CPU, cores / threads."""
    if device.type == "cpu":
        return max(1, len(os.sched_getaffinity(0)) // threads_per_process())
    gpus = 1 if device.index is not None else torch.cuda.device_count()
    return max(1, int(gpus / gpus_per_run + 1e-9))


class LocalExecutor:
    """``processes`` processes that each compute one task at a time.

    Each process belongs to a ``ProcessPoolExecutor`` of its own, which a thread of a ``ThreadPoolExecutor`` uses. A
    process that is killed therefore breaks only its own task, and the next task of its thread starts a new process.
    All processes end when this process ends, even if it is killed.

    Args:
        processes: number of processes.
        gpus_per_run: the share of a GPU that each process takes; with None each sees all GPUs.
    """

    def __init__(self, processes: int, gpus_per_run: float | None = None) -> None:
        self.gpus_per_run = gpus_per_run
        self._context = multiprocessing.get_context("spawn")
        self._reader, self._writer = self._context.Pipe(duplex=False)
        self._own, self._numbers = threading.local(), itertools.count()
        self._pools: list[ProcessPoolExecutor] = []
        self._threads = ThreadPoolExecutor(processes, initializer=self._start_thread)

    def submit(self, function: Callable[..., T], /, *arguments: Any) -> Future[T]:
        return self._threads.submit(self._call, function, *arguments)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """End the processes: after their tasks, or immediately after an error."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        if kind is not None:
            self._writer.close()
        self._threads.shutdown()
        for pool in self._pools:
            pool.shutdown()
        self._writer.close()
        self._reader.close()

    def _start_thread(self) -> None:
        self._own.number, self._own.pool = next(self._numbers), None

    def _call(self, function: Callable[..., T], *arguments: Any) -> T:
        pool = self._own.pool = self._own.pool or self._new_pool(self._own.number)
        try:
            return pool.submit(function, *arguments).result()
        except BrokenExecutor:
            self._own.pool = None
            raise

    def _new_pool(self, number: int) -> ProcessPoolExecutor:
        given = (self._reader, threads_per_process(), visible_gpu(number, self.gpus_per_run))
        # The process inherits the signal mask of this thread, so that only the parent handles a stop. The mask is set
        # before the pool is made, because that may start multiprocessing's resource tracker, which ignores the other
        # signals itself; and again afterwards, because the tracker resets them.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        pool = ProcessPoolExecutor(1, self._context, _start_process, given)
        self._pools.append(pool)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        return pool


def visible_gpu(number: int, gpus_per_run: float | None) -> str | None:
    """The GPU of this process, as in CUDA_VISIBLE_DEVICES; None if it sees all."""
    gpus = torch.cuda.device_count()
    if gpus_per_run is None or gpus < 2:
        return None
    names = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(gpus)))
    return names.split(",")[int(number * gpus_per_run + 1e-9) % gpus]


def _start_process(parent: Connection, threads: int, gpu: str | None) -> None:
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    torch.set_num_threads(threads)
    if gpu is not None:  # CUDA is not initialised in this process yet
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu


def _end_with(parent: Connection) -> None:
    """End this process when the parent process closes its end of the pipe, or ends."""
    try:
        parent.recv_bytes()
    except EOFError:
        os._exit(1)
