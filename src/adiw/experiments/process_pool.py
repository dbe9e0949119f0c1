"""Several processes that share the runs of a sweep, and end with the process that started them.

A ``ProcessPoolExecutor`` would drop all pending runs when one process is killed; here the others continue.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing.process import BaseProcess
from queue import Empty
from typing import Any

import torch

from adiw.experiments.plan import Planned
from adiw.experiments.run import Interrupted
from adiw.experiments.sweep import STOPPED, OnRunEpoch, Sweep

Ended = Iterator[tuple[Planned, dict[str, Any]]]


def run_in_processes(
    sweep: Sweep, planned: Sequence[Planned], progress: OnRunEpoch, stop: Callable[[], bool]
) -> Ended:
    """``sweep.run`` in ``sweep.processes`` processes; yields each run with its record when it ends.

    Cells with the same settings share one run.
    """
    first: dict[str, Planned] = {}
    for job in planned:
        first.setdefault(job.folder, job)
    work = sweep.run if sweep.processes == 1 else partial(_run_in_pool, sweep)
    yield from work(list(first.values()), progress, stop)
    yield from sweep.run([job for job in planned if first[job.folder] is not job], progress, stop)


def _run_in_pool(sweep: Sweep, planned: list[Planned], progress: OnRunEpoch, stop: Callable[[], bool]) -> Ended:
    """``sweep.run`` in several processes; each takes the next run when its last one has ended."""
    context = multiprocessing.get_context("spawn")
    messages, stopping, taken = context.Queue(), context.Event(), context.Value("q", 0)
    shared = (sweep, planned, taken, messages, stopping)
    workers = [context.Process(target=_work, args=shared) for _ in range(sweep.processes)]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the workers inherit it: this process handles Ctrl-C
    for worker in workers:
        worker.start()
    try:
        signal.signal(signal.SIGINT, before)  # inside try: from here on Ctrl-C may interrupt
        for job, kind, content in _listen(messages, workers, lambda: stopping.set() if stop() else None):
            if kind == "record":
                yield job, content
            else:
                progress(job, content)
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join()  # a worker that is still starting reads files that this process deletes at exit
    if stopping.is_set():
        raise Interrupted(STOPPED)


def _listen(
    messages: Any, workers: Sequence[BaseProcess], check_stop: Callable[[], None]
) -> Iterator[tuple[Planned, str, dict[str, Any]]]:
    """The messages of the workers, until all have ended."""
    while True:
        check_stop()
        alive = any(worker.is_alive() for worker in workers)
        try:
            yield messages.get(timeout=0.2)
        except Empty:
            if not alive:
                return


def _work(sweep: Sweep, planned: list[Planned], taken: Any, messages: Any, stopping: Any) -> None:
    """In a worker process, on one thread: run the runs and send messages about them."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)

    def send_row(job: Planned, row: dict[str, Any]) -> None:
        messages.put((job, "row", row))

    try:
        for job, record in sweep.run(_next(planned, taken), send_row, stopping.is_set):
            messages.put((job, "record", record))
    except Interrupted:
        pass  # requested by the parent process


def _next(planned: list[Planned], taken: Any) -> Iterator[Planned]:
    """The runs that no other process has taken; ``taken`` counts those that are taken."""
    while True:
        with taken.get_lock():
            at = taken.value
            taken.value += 1
        if at >= len(planned):
            return
        yield planned[at]


def _end_with_parent() -> None:
    """End this process when its parent ends, even if the parent is killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
