"""Training batches (x, y, index) whose order depends on the seed and the epoch alone.

Both loaders have the same methods: ``set_epoch`` draws the order of an epoch and leaves out its first ``done``
batches; a training step calls ``load_next`` and then ``batch``, which always uses the same device memory, so that a
CUDA graph of it can be replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import torch
from torch import Generator, Tensor
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

from adiw.engine.preprocessing import crop_and_flip, draw_crops
from adiw.reweighting.dataset_cache import prepare_worker, start
from adiw.reweighting.indexed_with_trusted import Indexed

Batch = tuple[Tensor, Tensor, Tensor]  # x, y, index
Part = Callable[[int], range]  # batch size -> positions in the batch that this process trains on; ``range``: all


class TensorLoader:
    """Batches of tensors on the device: an epoch is a permutation, a batch is a gather.

    Args:
        x, y: (n, ...) and (n,), copied to ``device``.
        batch: samples per batch; an incomplete last batch is dropped, unless it is the only one.
        seed: seeds order and augmentation, together with the epoch.
        augment: crop and flip images at random.
        part: the positions of each batch that this process trains on. All processes draw the same order and
            augmentation.
    """

    def __init__(
        self, x: Tensor, y: Tensor, batch: int, seed: int, device: torch.device, augment: bool, part: Part = range
    ) -> None:
        self.x, self.y = x.to(device), y.to(device)
        self.size, self.seed, self.augment = min(batch, len(x)), seed, augment
        self.order = torch.arange(len(x), device=device)
        self.first_positions = torch.tensor(part(self.size), device=device)
        self.positions = self.first_positions.clone()  # of the next batch, in the order
        self.crops = torch.zeros(len(x), 3, dtype=torch.long, device=device) if augment else None

    def __len__(self) -> int:
        return len(self.x) // self.size

    def set_epoch(self, epoch: int, done: int = 0) -> None:
        generator = epoch_generator(self.seed, epoch)
        self.order.copy_(torch.randperm(len(self.x), generator=generator))
        if self.crops is not None:
            self.crops.copy_(draw_crops(len(self.x), generator))
        self.positions.copy_(self.first_positions + done * self.size)

    def load_next(self) -> None:
        """Nothing to copy: all samples are on the device."""

    def batch(self) -> Batch:
        index = self.order[self.positions]
        x = self.x[index]
        if self.crops is not None:
            x = crop_and_flip(x, self.crops[self.positions])
        self.positions.add_(self.size)
        return x, self.y[index], index


class DatasetLoader:
    """Batches of a map-style data set through PyTorch's DataLoader, copied to the device while it computes.

    Random numbers of a sample depend on the seed, the epoch and the sample, not on the worker that reads it. Each
    process reads only its ``part`` of every batch.
    """

    def __init__(
        self, dataset: Any, batch: int, seed: int, device: torch.device, workers: int, part: Part = range
    ) -> None:
        self.dataset, self.size, self.seed = Indexed(dataset), min(batch, len(dataset)), seed
        self.device, self.workers, self.part = device, workers, part(self.size)
        self.host_batches: Iterator[Any] = iter(())
        self.remaining = 0  # batches of the epoch
        self.device_batch: Batch | None = None  # memory on the device that every batch is copied to

    def __len__(self) -> int:
        return len(self.dataset) // self.size

    def set_epoch(self, epoch: int, done: int = 0) -> None:
        generator = epoch_generator(self.seed, epoch)
        order = RandomSampler(self.dataset, generator=generator)
        loader: DataLoader[Any] = DataLoader(
            _SeededPerSample(self.dataset, epoch_seed(self.seed, epoch)),
            batch_sampler=_PartOfBatches(order, self.size, self.part, done),
            num_workers=self.workers,
            worker_init_fn=prepare_worker,
            pin_memory=self.device.type == "cuda",
            generator=generator,
        )
        self.host_batches, self.remaining = start(loader), len(self) - done

    def load_next(self) -> None:
        """Copy the next batch to the device: host work, outside of a CUDA graph."""
        x, y, index = next(self.host_batches)
        self.remaining -= 1
        if self.remaining == 0:
            self.host_batches = iter(())  # end the workers now, not when the iterator is garbage-collected
        if self.device_batch is None:
            self.device_batch = (x.to(self.device), y.to(self.device), index.to(self.device))
        for target, source in zip(self.device_batch, (x, y, index), strict=True):
            target.copy_(source, non_blocking=True)

    def batch(self) -> Batch:
        assert self.device_batch is not None  # load_next is called first
        return self.device_batch


TrainLoader = TensorLoader | DatasetLoader


def batches(loader: TrainLoader, epoch: int) -> Iterator[Batch]:
    """The batches of one epoch. Each is valid until the next one is requested."""
    loader.set_epoch(epoch)
    for _ in range(len(loader)):
        loader.load_next()
        yield loader.batch()


class _PartOfBatches(BatchSampler):
    """Draws whole batches of ``size`` samples; yields the positions in ``part`` of each after the first ``done``."""

    def __init__(self, order: RandomSampler, size: int, part: range, done: int) -> None:
        super().__init__(order, size, drop_last=True)
        self.part, self.done = part, done

    def __iter__(self) -> Iterator[list[int]]:
        for batch in islice(super().__iter__(), self.done, None):
            yield [batch[position] for position in self.part]


class _SeededPerSample(Dataset[Any]):
    """Seeds PyTorch's default generator with ``seed`` and the sample's index before the sample is read."""

    def __init__(self, dataset: Any, seed: int) -> None:
        self.dataset, self.seed = dataset, seed

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(epoch_seed(self.seed, index) % 2**63)
            return self.dataset[index]


def epoch_seed(seed: int, epoch: int) -> int:
    """The seed of one epoch of a run; never the seed of the run, which draws the trusted samples."""
    return (seed + 1) * 1_000_003 + epoch


def epoch_generator(seed: int, epoch: int) -> Generator:
    """The generator of one epoch of a run: an epoch that is repeated after a resume draws the same numbers."""
    return Generator().manual_seed(epoch_seed(seed, epoch))
