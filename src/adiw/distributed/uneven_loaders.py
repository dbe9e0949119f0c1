"""Let the batches of several processes end in the same step."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from itertools import count, islice
from typing import TypeVar

from adiw.distributed.process_group import current_processes

Batch = TypeVar("Batch")


def together(batches: Iterable[Batch]) -> Iterator[Batch]:
    """The batches of this process, until one of the processes has no more; warns if this process has batches left.

    Without it, a process with more batches than the others waits for them in its next step. It is not needed if all
    have the same number (``DistributedSampler``, ``drop_last=True``). A single process gets all of its batches.

    >>> list(together([1, 2, 3]))
    [1, 2, 3]
    """
    processes, source = current_processes(), iter(batches)
    for number in count():
        batch = list(islice(source, 1))
        if processes.any(not batch):
            if batch:
                more = f"process {processes.rank} has more than {number} batches"
                warnings.warn(f"{more}, but another process does not: all end here", stacklevel=2)
            return
        yield batch[0]
