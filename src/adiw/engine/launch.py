"""The processes that torchrun has started: how they are linked, what each runs on, and who speaks when one fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

_store: Any = None  # what the processes write down for each other, while they are linked


def launched() -> bool:
    """Whether torchrun has started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


@contextmanager
def linked() -> Iterator[None]:
    """Link the processes that torchrun has started. Of several that fail only the first raises its error.

    A process that was started otherwise is left alone.
    """
    global _store
    if not launched():
        yield
        return
    # What is on the host travels by gloo in any case: also a run on GPUs agrees there on how to go on.
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
    _store, rank, size = next(dist.rendezvous("env://"))  # type: ignore[attr-defined]
    dist.init_process_group(backend, store=_store, rank=rank, world_size=size)
    try:
        yield
        dist.destroy_process_group()  # not after a failure: the others may never come to it
    except Exception:
        if first_to_fail():
            raise
        raise SystemExit(1) from None
    finally:
        _store = None


def first_to_fail() -> bool:
    """Whether no other process has failed before this one, which must then say why. It is asked by who has failed."""
    if _store is None:
        return True
    try:
        own = os.environ["RANK"]
        return bool(_store.compare_set("first to fail", "", own) == own.encode())
    except RuntimeError:  # torchrun itself has ended, and the store with it
        return True


def lost(error: RuntimeError) -> bool:
    """Whether this is what PyTorch raises when another process of the group has gone.

    >>> lost(RuntimeError("[gloo/transport/tcp/pair.cc:537] Read error: Connection reset by peer"))
    True
    """
    text = str(error)
    return isinstance(error, dist.DistError) or "gloo" in text or "NCCL" in text


def own_device(asked: torch.device | None) -> torch.device | None:
    """The device of this process: what was asked for, but of a machine's GPUs each process has its own."""
    if not launched() or not torch.cuda.is_available() or (asked is not None and asked.type == "cpu"):
        return asked
    number, processes = (int(os.environ[name]) for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    if asked is not None and asked.index is not None and processes > 1:
        raise ValueError(f"device {asked} is one GPU, but each of {processes} processes has its own: say cuda")
    if processes > torch.cuda.device_count():
        raise ValueError(
            f"torchrun started {processes} processes here, but PyTorch finds {torch.cuda.device_count()} GPUs: "
            "start as many processes as there are GPUs, or add --device cpu"
        )
    device = torch.device("cuda", number if asked is None or asked.index is None else asked.index)
    torch.cuda.set_device(device)
    return device
