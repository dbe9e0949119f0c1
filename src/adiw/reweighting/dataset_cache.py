"""Read a whole data set as one batch, to keep it on the model's device; loaders and their worker processes."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from adiw.user_code import warn_user

CACHE_BYTES = 2**30
READ_SIZE = 64  # batch size of the loader
COMPARED = 256  # most samples that are read a second time: reading a whole set again may take minutes


def read_all(dataset: Any, cache_bytes: int = CACHE_BYTES, workers: int = 0) -> Any | None:
    """The whole set as one batch of tensors; None if it is too large, not all tensors, or not constant.

    With workers, this process reads nothing: if it opened a file, the workers would share its position.

    >>> read_all([(torch.tensor([1.0, 2.0]), 0), (torch.tensor([3.0, 4.0]), 1)])
    [tensor([[1., 2.],
            [3., 4.]]), tensor([0, 1])]
    >>> read_all([("one", 0), ("two", 1)])
    """
    if not cache_bytes:
        return None
    count = len(dataset)
    with torch.random.fork_rng(devices=[]):  # loaders and augmentation draw from the global generator
        batches = _batches(dataset, range(count), workers)
        first = next(batches)
        leaves = _leaves(first)
        if not all(isinstance(leaf, Tensor) for leaf in leaves):
            return None
        size = count * sum(leaf[0].nbytes for leaf in leaves)
        if size > cache_bytes:
            _warn_if_slow(count, size, cache_bytes, workers)
            return None
        whole = map_tensors(lambda part: part.new_empty((count, *part.shape[1:])), first)
        for number, batch in enumerate(chain([first], batches)):
            for column, part in _pairs(whole, batch):
                if (part.dtype, part.shape[1:]) != (column.dtype, column.shape[1:]):
                    return None
                column[number * READ_SIZE :][: len(part)] = part
        return whole if _is_constant(dataset, whole, workers) else None


def _is_constant(dataset: Any, whole: Any, workers: int) -> bool:
    """Whether samples are the same when they are read again.

    They are read in reverse order, and then the first once more: a set with its own generator, of which every worker
    has a copy, draws the same numbers again when it is read in the same order.
    """
    count = len(dataset)
    order = [*range(count)[:: -count // COMPARED], 0]
    for number, batch in enumerate(_batches(dataset, order, workers)):
        rows = order[number * READ_SIZE :][:READ_SIZE]
        if not all(_equal(column[rows], part) for column, part in _pairs(whole, batch)):
            return False
    return True


def _equal(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())


def _batches(dataset: Any, order: Sequence[int], workers: int) -> Iterator[Any]:
    loader: DataLoader[Any] = DataLoader(
        dataset,
        batch_size=READ_SIZE,
        sampler=order,
        num_workers=workers,
        worker_init_fn=prepare_worker,
    )
    return start(loader)


def _warn_if_slow(count: int, size: int, cache_bytes: int, workers: int) -> None:
    if not workers:
        warn_user(
            f"the {count:,} trusted samples take {size:,} bytes, more than cache_bytes={cache_bytes}: they are read "
            f"while the model waits. Pass cache_bytes={size} to keep them on its device, or val_workers to read them "
            "in worker processes (adiw run: --workers)"
        )


def map_tensors(fn: Callable[[Tensor], Tensor], batch: Any) -> Any:
    """``fn`` of every tensor in a batch of nested tuples, lists and mappings.

    >>> map_tensors(lambda x: x + 1, {"x": torch.tensor(1), "pair": (torch.tensor(2), "text")})
    {'x': tensor(2), 'pair': (tensor(3), 'text')}
    """
    if isinstance(batch, Tensor):
        return fn(batch)
    if isinstance(batch, dict):
        return {key: map_tensors(fn, value) for key, value in batch.items()}
    if isinstance(batch, (tuple, list)):
        items = [map_tensors(fn, value) for value in batch]
        return type(batch)(*items) if hasattr(batch, "_fields") else type(batch)(items)
    return batch


def take_rows(batch: Any, index: Tensor) -> Any:
    """The rows at ``index`` of every tensor in a batch."""
    return map_tensors(lambda column: column.index_select(0, index), batch)


def _leaves(batch: Any) -> list[Any]:
    if isinstance(batch, dict):
        return [leaf for value in batch.values() for leaf in _leaves(value)]
    if isinstance(batch, (tuple, list)):
        return [leaf for value in batch for leaf in _leaves(value)]
    return [batch]


def _pairs(whole: Any, batch: Any) -> Iterator[tuple[Tensor, Tensor]]:
    """Every tensor of ``whole`` with the one of ``batch`` in the same position; keys may come in any order."""
    if isinstance(whole, Tensor):
        yield whole, batch
    elif isinstance(whole, dict):
        for key, value in whole.items():
            yield from _pairs(value, batch[key])
    else:
        for value, part in zip(whole, batch, strict=True):
            yield from _pairs(value, part)


def start(loader: DataLoader[Any]) -> Iterator[Any]:
    """The loader's batches.

    A forked worker inherits all objects of this process. If it collected the CUDA graph of a finished run, it would
    crash: no garbage is collected until ``prepare_worker`` excludes these objects. It also inherits that SIGTERM
    waits, until then.
    """
    if not loader.num_workers:
        return iter(loader)
    collects, signals = gc.isenabled(), hasattr(signal, "sigwaitinfo")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM}) if signals else set()
    gc.disable()
    try:
        return iter(loader)
    finally:
        if collects:
            gc.enable()
        if signals:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def prepare_worker(worker: int) -> None:
    """In a new worker: collect only its own garbage, and ignore signals that a terminal or SLURM sends to all.

    The training process ends its workers.
    """
    gc.freeze()
    gc.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "SIGUSR1"):
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    if hasattr(signal, "sigwaitinfo"):  # without it, every SIGTERM ends a worker
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=_end_on_request_of_the_parent, daemon=True).start()


def _end_on_request_of_the_parent() -> None:
    """End this process when the process that started it sends SIGTERM, as a DataLoader does to slow workers."""
    while signal.sigwaitinfo({signal.SIGTERM}).si_pid != os.getppid():
        pass
    os._exit(0)
