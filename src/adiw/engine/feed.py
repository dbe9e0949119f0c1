"""Training batches (x, y, index), epoch by epoch, in an order that depends on the seed and the epoch alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
from torch import Generator, Tensor
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

from adiw.engine.inputs import crop_and_flip, draw_crops
from adiw.reweighting.dataset_cache import leave_interrupts_to_the_parent, start
from adiw.reweighting.indexed import Indexed

Batch = tuple[Tensor, Tensor, Tensor]
Part = Callable[[int], range]  # which samples of a batch of so many come to this process; ``range`` itself: all


class Feed(Protocol):
    """Where training batches come from. A step calls ``fetch`` and then ``batch``."""

    def __len__(self) -> int:
        """Batches in an epoch."""
        ...

    def begin(self, epoch: int) -> None:
        """Get ready for the batches of an epoch."""
        ...

    def fetch(self) -> None:
        """The host's part of the next batch: bring to the device what is not there."""
        ...

    def batch(self) -> Batch:
        """The device's part: the next batch. It reads and writes the same tensors every time, so that a captured
        graph of it gives the next batch at every replay."""
        ...


class DeviceFeed:
    """Samples that live on the device: an epoch is a permutation, a batch is a gather.

    Args:
        x, y: (n, ...) and (n,), moved to ``device``.
        batch: samples in a batch; the last incomplete one is dropped, unless it is the only one.
        seed: with the epoch's number it gives the order and the augmentation.
        augment: crop and flip images.
        part: of several processes, this one's samples of each batch; order and augmentation are drawn for all.
    """

    def __init__(
        self, x: Tensor, y: Tensor, batch: int, seed: int, device: torch.device, augment: bool, part: Part = range
    ) -> None:
        self.x, self.y = x.to(device), y.to(device)
        self.size, self.seed, self.augment = min(batch, len(x)), seed, augment
        self.order = torch.arange(len(x), device=device)
        self.first = torch.tensor(part(self.size), device=device)
        self.place = self.first.clone()  # of the next batch's samples in the order
        self.crops = torch.zeros(len(x), 3, dtype=torch.long, device=device) if augment else None

    def __len__(self) -> int:
        return len(self.x) // self.size

    def begin(self, epoch: int) -> None:
        random = epoch_generator(self.seed, epoch)
        self.order.copy_(torch.randperm(len(self.x), generator=random))
        if self.crops is not None:
            self.crops.copy_(draw_crops(len(self.x), random))
        self.place.copy_(self.first)

    def fetch(self) -> None:
        pass

    def batch(self) -> Batch:
        index = self.order[self.place]
        x = self.x[index]
        if self.crops is not None:
            x = crop_and_flip(x, self.crops[self.place])
        self.place.add_(self.size)
        return x, self.y[index], index


class LoaderFeed:
    """Samples that are decoded on demand: worker processes read ahead, batches cross to the device while it works.

    What is drawn for a sample depends on the seed, the epoch and the sample, not on the process that decodes it.
    Of several processes each reads its ``part`` of every batch.
    """

    def __init__(
        self, dataset: Any, batch: int, seed: int, device: torch.device, workers: int, part: Part = range
    ) -> None:
        self.dataset, self.size, self.seed = Indexed(dataset), min(batch, len(dataset)), seed
        self.device, self.workers, self.part = device, workers, part(self.size)
        self.batches: Iterator[Any] = iter(())
        self.left = 0  # batches of the epoch
        self.held: Batch | None = None  # the one place on the device that every batch comes to

    def __len__(self) -> int:
        return len(self.dataset) // self.size

    def begin(self, epoch: int) -> None:
        random = epoch_generator(self.seed, epoch)
        loader: DataLoader[Any] = DataLoader(
            _Reseeded(self.dataset, epoch_seed(self.seed, epoch)),
            batch_sampler=_Parts(RandomSampler(self.dataset, generator=random), self.size, self.part),
            num_workers=self.workers,
            worker_init_fn=leave_interrupts_to_the_parent,
            pin_memory=self.device.type == "cuda",
            generator=random,
        )
        self.batches, self.left = start(loader), len(self)

    def fetch(self) -> None:
        x, y, index = next(self.batches)
        self.left -= 1
        if self.left == 0:
            self.batches = iter(())  # its workers end now, and not whenever this is collected
        if self.held is None:
            self.held = (x.to(self.device), y.to(self.device), index.to(self.device))
        for place, part in zip(self.held, (x, y, index), strict=True):
            place.copy_(part, non_blocking=True)

    def batch(self) -> Batch:
        assert self.held is not None  # fetch comes first
        return self.held


def batches(feed: Feed, epoch: int) -> Iterator[Batch]:
    """The batches of one epoch. Each is to be used before the next is asked for."""
    feed.begin(epoch)
    for _ in range(len(feed)):
        feed.fetch()
        yield feed.batch()


class _Parts(BatchSampler):
    """Whole batches of ``size``, of which the places in ``part`` are given out."""

    def __init__(self, order: RandomSampler, size: int, part: range) -> None:
        super().__init__(order, size, drop_last=True)
        self.part = part

    def __iter__(self) -> Iterator[list[int]]:
        for batch in super().__iter__():
            yield [batch[place] for place in self.part]


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


def epoch_seed(seed: int, epoch: int) -> int:
    """A seed for one epoch of one run; never that of the run itself, by which the trusted samples are drawn."""
    return (seed + 1) * 1_000_003 + epoch


def epoch_generator(seed: int, epoch: int) -> Generator:
    """A generator for one epoch of one run, so that a resumed epoch draws what it drew before."""
    return Generator().manual_seed(epoch_seed(seed, epoch))
