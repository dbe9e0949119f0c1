"""Several processes that work on one list of runs, and end when the one that started them does."""

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
from adiw.experiments.sweep import STOPPED, Progress, Sweep

Ended = Iterator[tuple[Planned, dict[str, Any]]]


def run_in_processes(sweep: Sweep, planned: Sequence[Planned], progress: Progress, stop: Callable[[], bool]) -> Ended:
    """``sweep.run`` in as many processes as the sweep has: each run with its record as it ends.

    Cells of the same settings share one run.
    """
    first: dict[str, Planned] = {}
    for job in planned:
        first.setdefault(job.folder, job)
    work = sweep.run if sweep.processes == 1 else partial(_spread, sweep)
    yield from work(list(first.values()), progress, stop)
    yield from sweep.run([job for job in planned if first[job.folder] is not job], progress, stop)


def _spread(sweep: Sweep, planned: list[Planned], progress: Progress, stop: Callable[[], bool]) -> Ended:
    """``sweep.run``, but in processes, each of which takes the next run when it has room for one."""
    context = multiprocessing.get_context("spawn")
    messages, asked, taken = context.Queue(), context.Event(), context.Value("q", 0)
    shared = (sweep, planned, taken, messages, asked)
    workers = [context.Process(target=_work, args=shared) for _ in range(sweep.processes)]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # inherited: Ctrl-C is for this process to answer
    for worker in workers:
        worker.start()
    try:
        signal.signal(signal.SIGINT, before)  # within: Ctrl-C may come at once
        for job, kind, content in _listen(messages, workers, lambda: asked.set() if stop() else None):
            if kind == "record":
                yield job, content
            else:
                progress(job, content)
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join()  # one that is still starting would miss what this process takes away when it ends
    if asked.is_set():
        raise Interrupted(STOPPED)


def _listen(
    messages: Any, workers: Sequence[BaseProcess], look: Callable[[], None]
) -> Iterator[tuple[Planned, str, dict[str, Any]]]:
    """What the workers say, until all have ended."""
    while True:
        look()
        alive = any(worker.is_alive() for worker in workers)
        try:
            yield messages.get(timeout=0.2)
        except Empty:
            if not alive:
                return


def _work(sweep: Sweep, planned: list[Planned], taken: Any, messages: Any, asked: Any) -> None:
    """In a worker process, on one thread: run the runs and tell of them."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)

    def tell(job: Planned, row: dict[str, Any]) -> None:
        messages.put((job, "row", row))

    try:
        for job, record in sweep.run(_next(planned, taken), tell, asked.is_set):
            messages.put((job, "record", record))
    except Interrupted:
        pass  # the process that asked for it knows


def _next(planned: list[Planned], taken: Any) -> Iterator[Planned]:
    """The runs that no other process has taken; ``taken`` counts those that one has."""
    while True:
        with taken.get_lock():
            at = taken.value
            taken.value += 1
        if at >= len(planned):
            return
        yield planned[at]


def _end_with_parent() -> None:
    """However the parent ends, its workers do not outlive it."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
