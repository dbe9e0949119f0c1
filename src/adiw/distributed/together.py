"""Batches of several processes that end together, however many each of them has."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from itertools import count, islice
from typing import TypeVar

from adiw.distributed.process_group import ProcessGroup

Batch = TypeVar("Batch")


def together(batches: Iterable[Batch]) -> Iterator[Batch]:
    """The batches of this process, as long as every process has one; then all stop, with a warning of what is left.

    Without it, a process with more batches than the others waits for them in its next step. It is not needed where
    all have the same number (``DistributedSampler``, ``drop_last=True``). A process alone gets all of its batches.

    >>> list(together([1, 2, 3]))
    [1, 2, 3]
    """
    processes, source = ProcessGroup(), iter(batches)
    for number in count():
        batch = list(islice(source, 1))
        if processes.any(not batch):
            if batch:
                more = f"process {processes.rank} has more than {number} batches"
                warnings.warn(f"{more}, but another has not: all end here", stacklevel=2)
            return
        yield batch[0]
