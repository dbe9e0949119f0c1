"""Several processes that work on one list of runs, and end when the one that started them does."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.process import BaseProcess
from queue import Empty
from typing import Any

import torch

from adiw.experiments.run import Interrupted
from adiw.experiments.sweep import Planned, Sweep


def run_in_processes(
    sweep: Sweep,
    planned: list[Planned],
    count: int,
    progress: Callable[[Planned, dict[str, Any]], None],
    stop: Callable[[], bool],
) -> Iterator[tuple[Planned, dict[str, Any]]]:
    """``sweep.run`` in ``count`` processes, each with its share of the runs: each run with its record as it ends."""
    if count == 1:
        yield from sweep.run(planned, progress, stop)
        return
    context = multiprocessing.get_context("spawn")
    messages, asked = context.Queue(), context.Event()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # inherited: Ctrl-C is for this process to answer
    workers = [context.Process(target=_work, args=(sweep, planned[k::count], messages, asked)) for k in range(count)]
    for worker in workers:
        worker.start()
    signal.signal(signal.SIGINT, before)
    try:
        for job, kind, content in _listen(messages, workers, lambda: asked.set() if stop() else None):
            if kind == "record":
                yield job, content
            else:
                progress(job, content)
    finally:
        for worker in workers:
            worker.terminate()
    if stop():
        raise Interrupted("stopped; the same command goes on")


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


def _work(sweep: Sweep, planned: list[Planned], messages: Any, asked: Any) -> None:
    """In a worker process: run the runs and tell of them."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)

    def tell(job: Planned, row: dict[str, Any]) -> None:
        messages.put((job, "row", row))

    try:
        for job, record in sweep.run(planned, tell, asked.is_set):
            messages.put((job, "record", record))
    except Interrupted:
        pass  # the process that asked for it knows


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
