"""Training batches: every sample once per epoch, in an order given by the seed and the epoch."""

from __future__ import annotations

import gc
import os
import signal
import time
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset

from adiw.engine.train_loader import Batch, DatasetLoader, Part, TensorLoader, TrainLoader, batches

CPU = torch.device("cpu")
# PyTorch forks its workers, and warns on a machine with a single core.
workers_allowed = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning", "ignore:This DataLoader will create:UserWarning"
)


class Noisy(Dataset[tuple[Tensor, Tensor]]):
    """Sample i is (i + a random number, 10 i), like an image with a random crop."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        return i + torch.rand(2), torch.tensor(10 * i)


class Signalled(Noisy):
    """Sends signals to the process that reads it; the label is 1 if that process handles Ctrl-C."""

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        handles = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
        if not handles:
            for number in (signal.SIGINT, signal.SIGUSR1, signal.SIGTERM):
                os.kill(os.getpid(), number)
        return torch.zeros(1), torch.tensor(int(handles))


def tensor_loader(size: int, batch: int, seed: int = 0, augment: bool = False, part: Part = range) -> TensorLoader:
    return TensorLoader(torch.arange(size)[:, None].float(), 10 * torch.arange(size), batch, seed, CPU, augment, part)


def dataset_loader(size: int, batch: int, seed: int = 0, workers: int = 0, part: Part = range) -> DatasetLoader:
    return DatasetLoader(Noisy(size), batch, seed, CPU, workers, part)


def order(loader: TrainLoader, epoch: int) -> list[int]:
    return torch.cat([index.clone() for _, _, index in batches(loader, epoch)]).tolist()


@pytest.mark.parametrize("make", [tensor_loader, dataset_loader])
class TestBothLoaders:
    def test_every_sample_comes_once_except_the_dropped_remainder(self, make: Any) -> None:
        loader = make(23, 5)
        assert len(list(batches(loader, 0))) == len(loader) == 4
        seen = order(loader, 0)
        assert len(seen) == len(set(seen)) == 20
        assert set(seen) <= set(range(23))
        dropped = {frozenset(range(23)) - frozenset(order(loader, epoch)) for epoch in range(5)}
        assert len(dropped) > 1  # not always the same ones

    def test_samples_labels_and_indices_belong_together(self, make: Any) -> None:
        for x, y, index in batches(make(12, 4), 1):
            assert torch.equal(x[:, 0].floor().long(), index)
            assert torch.equal(y, 10 * index)
            assert index.dtype == torch.int64

    def test_a_set_smaller_than_a_batch_is_one_batch(self, make: Any) -> None:
        loader = make(3, 256)
        assert len(loader) == 1
        assert sorted(order(loader, 0)) == [0, 1, 2]

    def test_the_order_depends_on_seed_and_epoch_alone(self, make: Any) -> None:
        loader = make(50, 10, 7)
        later = order(loader, 3)
        order(loader, 4)
        torch.rand(5)  # other random numbers have no effect
        assert order(loader, 3) == later == order(make(50, 10, 7), 3)
        assert order(loader, 4) != later
        assert order(make(50, 10, 8), 3) != later


@pytest.mark.parametrize("make", [lambda: image_loader(), lambda: dataset_loader(20, 5)], ids=["device", "loader"])
def test_an_epoch_continues_after_any_batch(make: Any) -> None:
    whole = [[part.clone() for part in batch] for batch in batches(make(), 3)]
    for done in range(len(whole)):
        loader = make()
        loader.set_epoch(3, done)
        for expected in whole[done:]:
            loader.load_next()
            assert all(torch.equal(part, other) for part, other in zip(loader.batch(), expected, strict=True))


def test_augmentation_on_the_device_depends_on_seed_and_epoch_alone() -> None:
    images = torch.rand(20, 3, 8, 8)

    def epoch(seed: int, number: int) -> Tensor:
        loader = TensorLoader(images, torch.zeros(20).long(), 5, seed, CPU, augment=True)
        return torch.cat([x for x, _, _ in batches(loader, number)])

    first = epoch(0, 2)
    torch.rand(3)
    assert torch.equal(first, epoch(0, 2))
    assert not torch.equal(first, epoch(0, 3))
    assert not torch.equal(first, epoch(1, 2))


def test_without_augmentation_samples_are_not_changed() -> None:
    images = torch.rand(20, 3, 8, 8)
    loader = TensorLoader(images, torch.zeros(20).long(), 5, 0, CPU, augment=False)
    for x, _, index in batches(loader, 0):
        assert torch.equal(x, images[index])


def content(loader: DatasetLoader, epoch: int) -> Batch:
    kept = [[part.clone() for part in batch] for batch in batches(loader, epoch)]
    x, y, index = (torch.cat(parts) for parts in zip(*kept, strict=True))
    return x, y, index


@workers_allowed
def test_the_number_of_workers_changes_nothing() -> None:
    alone, two = content(dataset_loader(24, 4), 1), content(dataset_loader(24, 4, workers=2), 1)
    for here, there in zip(alone, two, strict=True):
        assert torch.equal(here, there)


def test_random_numbers_of_a_sample_depend_on_seed_epoch_and_sample() -> None:
    first = content(dataset_loader(24, 4), 1)[0]
    torch.rand(3)
    assert torch.equal(first, content(dataset_loader(24, 4), 1)[0])
    drawn = {}
    for seed, epoch in ((0, 1), (0, 2), (1, 1)):
        x, _, index = content(dataset_loader(24, 4, seed), epoch)
        drawn[seed, epoch] = (x[:, 0] - index)[index.argsort()]
        assert len(set(drawn[seed, epoch].tolist())) == 24  # samples draw differently
    assert not torch.allclose(drawn[0, 1], drawn[0, 2])
    assert not torch.allclose(drawn[0, 1], drawn[1, 1])


def test_loading_does_not_change_the_global_random_state() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    list(batches(dataset_loader(8, 4), 0))
    assert torch.equal(torch.rand(3), expected)


@workers_allowed
def test_workers_end_with_the_last_batch_of_the_epoch() -> None:
    """Workers that end with garbage collection end at any time, and a thread that feeds them may then fail."""
    loader = dataset_loader(24, 4, workers=2)
    loader.set_epoch(0)
    for _ in range(len(loader)):
        assert len(active_children()) == 2
        loader.load_next()
    assert active_children() == []
    loader.set_epoch(1)
    loader.load_next()


@workers_allowed
def test_workers_ignore_signals_and_the_training_process_handles_them() -> None:
    with_workers = DatasetLoader(Signalled(4), 2, 0, CPU, workers=2)
    assert not content(with_workers, 0)[1].any()
    here = DatasetLoader(Signalled(4), 2, 0, CPU, workers=0)
    assert content(here, 0)[1].all()  # without workers, the training process reads


@workers_allowed
@pytest.mark.skipif(not hasattr(signal, "sigwaitinfo"), reason="SIGTERM ends a worker, whoever sends it")
def test_the_training_process_ends_a_worker_that_reads() -> None:
    class Endless(Noisy):
        def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
            time.sleep(600)
            raise AssertionError

    loader = DatasetLoader(Endless(4), 2, 0, CPU, workers=1)
    loader.set_epoch(0)
    (worker,) = active_children()
    worker.terminate()
    worker.join(timeout=60)
    assert worker.exitcode == 0
    loader.host_batches = iter(())


class Remains:
    """Garbage that only the process that made it may collect."""

    def __init__(self, collected_by: Path) -> None:
        self.collected_by, self.myself = collected_by, self

    def __del__(self) -> None:
        self.collected_by.write_text(str(os.getpid()))


class Collecting(Noisy):
    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        gc.collect()
        return super().__getitem__(i)


@workers_allowed
def test_workers_do_not_collect_garbage_of_the_training_process(tmp_path: Path) -> None:
    """It may be a CUDA graph: to free one crashes a process without CUDA."""
    gc.collect()
    gc.disable()
    try:
        Remains(tmp_path / "collected_by")
        content(DatasetLoader(Collecting(8), 4, 0, CPU, workers=1), 0)
        assert not (tmp_path / "collected_by").exists()
    finally:
        gc.enable()
    gc.collect()
    assert (tmp_path / "collected_by").read_text() == str(os.getpid())


@pytest.mark.parametrize("make", [tensor_loader, dataset_loader])
def test_every_batch_uses_the_same_memory(make: Any) -> None:
    """A CUDA graph reads the tensors that it was captured with."""
    loader = make(12, 4)
    loader.set_epoch(0)
    addresses = []
    for _ in range(3):
        loader.load_next()
        loader.batch()
        held = [loader.order, loader.positions] if isinstance(loader, TensorLoader) else loader.device_batch
        addresses.append([part.data_ptr() for part in held])
    loader.set_epoch(1)
    assert addresses[0] == addresses[1] == addresses[2]


def image_loader(part: Part = range) -> TensorLoader:
    images = torch.arange(20 * 64).view(20, 1, 8, 8).float()
    return TensorLoader(images, torch.arange(20), 5, 0, CPU, augment=True, part=part)


@pytest.mark.parametrize(
    "make",
    [lambda part: tensor_loader(23, 5, part=part), lambda part: dataset_loader(23, 5, part=part), image_loader],
    ids=["device", "loader", "augmented"],
)
def test_the_parts_of_several_processes_are_the_batches_of_one(make: Any) -> None:
    """Same samples, order and random numbers; batches of five give parts of unequal length."""
    for epoch in (0, 1):
        whole = [[column.clone() for column in batch] for batch in batches(make(range), epoch)]
        first = [[column.clone() for column in batch] for batch in batches(make(lambda size: range(2)), epoch)]
        second = [[column.clone() for column in batch] for batch in batches(make(lambda size: range(2, size)), epoch)]
        assert len(whole) == len(first) == len(second) == 4
        for expected, parts in zip(whole, zip(first, second, strict=True), strict=True):
            for column, *pieces in zip(expected, *parts, strict=True):
                assert torch.equal(torch.cat(pieces), column)
