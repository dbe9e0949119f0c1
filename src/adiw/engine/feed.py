"""Training batches (x, y, index), epoch by epoch, in an order that depends on the seed and the epoch alone."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import Generator, Tensor
from torch.utils.data import DataLoader, Dataset

from adiw.engine.inputs import crop_and_flip
from adiw.indexed import Indexed

Batch = tuple[Tensor, Tensor, Tensor]


class Feed(Protocol):
    """Where training batches come from."""

    def __len__(self) -> int:
        """Batches in an epoch."""
        ...

    def epoch(self, number: int) -> Iterator[Batch]:
        """The batches of one epoch, on the device."""
        ...


class DeviceFeed:
    """Samples that live on the device: an epoch is a permutation and a gather for each batch.

    Args:
        x, y: (n, ...) and (n,), moved to ``device``.
        batch: samples in a batch; the last incomplete one is dropped, unless it is the only one.
        seed: with the epoch's number it gives the order and the augmentation.
        augment: crop and flip images.
    """

    def __init__(self, x: Tensor, y: Tensor, batch: int, seed: int, device: torch.device, augment: bool) -> None:
        self.x, self.y = x.to(device), y.to(device)
        self.batch, self.seed, self.device, self.augment = min(batch, len(x)), seed, device, augment

    def __len__(self) -> int:
        return len(self.x) // self.batch

    def epoch(self, number: int) -> Iterator[Batch]:
        order = torch.randperm(len(self.x), generator=epoch_generator(self.seed, number)).to(self.device)
        random = epoch_generator(self.seed, number, self.device)
        for start in range(0, len(self) * self.batch, self.batch):
            index = order[start : start + self.batch]
            x = self.x[index]
            yield crop_and_flip(x, random) if self.augment else x, self.y[index], index


class LoaderFeed:
    """Samples that are decoded on demand: worker processes read ahead, batches cross to the device while it works.

    What is drawn for a sample depends on the seed, the epoch and the sample, not on the process that decodes it.
    """

    def __init__(self, dataset: Any, batch: int, seed: int, device: torch.device, workers: int) -> None:
        self.dataset, self.batch, self.seed = Indexed(dataset), min(batch, len(dataset)), seed
        self.device, self.workers = device, workers

    def __len__(self) -> int:
        return len(self.dataset) // self.batch

    def epoch(self, number: int) -> Iterator[Batch]:
        loader: DataLoader[Any] = DataLoader(
            _Reseeded(self.dataset, epoch_seed(self.seed, number)),
            batch_size=self.batch,
            shuffle=True,
            drop_last=True,
            num_workers=self.workers,
            worker_init_fn=leave_interrupts_to_the_parent,
            pin_memory=self.device.type == "cuda",
            generator=epoch_generator(self.seed, number),
        )
        for x, y, index in loader:
            yield tuple(part.to(self.device, non_blocking=True) for part in (x, y, index))


class _Reseeded(Dataset[Any]):
    """Items for which the default generator starts from ``seed`` and the item's number."""

    def __init__(self, dataset: Any, seed: int) -> None:
        self.dataset, self.seed = dataset, seed

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(epoch_seed(self.seed, index) % 2**63)
            return self.dataset[index]


def leave_interrupts_to_the_parent(worker: int) -> None:
    """Ctrl-C in a terminal reaches all processes: the one that trains decides when its workers end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # not SIGTERM, by which it ends them


def epoch_seed(seed: int, epoch: int) -> int:
    """A seed for one epoch of one run."""
    return seed * 1_000_003 + epoch


def epoch_generator(seed: int, epoch: int, device: torch.device | None = None) -> Generator:
    """A generator for one epoch of one run, so that a resumed epoch draws what it drew before."""
    return Generator(device or torch.device("cpu")).manual_seed(epoch_seed(seed, epoch))
