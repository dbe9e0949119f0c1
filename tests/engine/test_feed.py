"""Batches: every sample once an epoch, in an order that the seed and the epoch decide."""

from __future__ import annotations

import gc
import os
import signal
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset

from adiw.engine.feed import Batch, DeviceFeed, Feed, LoaderFeed, Part, batches

CPU = torch.device("cpu")
# PyTorch starts its workers by fork, and remarks on a machine with a single core.
workers_allowed = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning", "ignore:This DataLoader will create:UserWarning"
)


class Noisy(Dataset[tuple[Tensor, Tensor]]):
    """Sample i is (i + a random number, 10 i): as images that are cropped at random."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        return i + torch.rand(2), torch.tensor(10 * i)


class AnswersToInterrupts(Noisy):
    """Its label says whether the process that reads it would answer to Ctrl-C."""

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        return torch.zeros(1), torch.tensor(int(signal.getsignal(signal.SIGINT) is not signal.SIG_IGN))


def device_feed(size: int, batch: int, seed: int = 0, augment: bool = False, part: Part = range) -> DeviceFeed:
    return DeviceFeed(torch.arange(size)[:, None].float(), 10 * torch.arange(size), batch, seed, CPU, augment, part)


def loader_feed(size: int, batch: int, seed: int = 0, workers: int = 0, part: Part = range) -> LoaderFeed:
    return LoaderFeed(Noisy(size), batch, seed, CPU, workers, part)


def order(feed: Feed, epoch: int) -> list[int]:
    return torch.cat([index.clone() for _, _, index in batches(feed, epoch)]).tolist()


@pytest.mark.parametrize("make", [device_feed, loader_feed])
class TestBothFeeds:
    def test_every_sample_comes_once_but_for_the_dropped_remainder(self, make: Any) -> None:
        feed = make(23, 5)
        assert len(list(batches(feed, 0))) == len(feed) == 4
        seen = order(feed, 0)
        assert len(seen) == len(set(seen)) == 20
        assert set(seen) <= set(range(23))
        dropped = {frozenset(range(23)) - frozenset(order(feed, epoch)) for epoch in range(5)}
        assert len(dropped) > 1  # not always the same ones

    def test_samples_labels_and_indices_belong_together(self, make: Any) -> None:
        for x, y, index in batches(make(12, 4), 1):
            assert torch.equal(x[:, 0].floor().long(), index)
            assert torch.equal(y, 10 * index)
            assert index.dtype == torch.int64

    def test_a_set_smaller_than_a_batch_is_one_batch(self, make: Any) -> None:
        feed = make(3, 256)
        assert len(feed) == 1
        assert sorted(order(feed, 0)) == [0, 1, 2]

    def test_the_order_depends_on_seed_and_epoch_alone(self, make: Any) -> None:
        feed = make(50, 10, 7)
        later = order(feed, 3)
        order(feed, 4)
        torch.rand(5)  # what else is drawn in the program does not matter
        assert order(feed, 3) == later == order(make(50, 10, 7), 3)
        assert order(feed, 4) != later
        assert order(make(50, 10, 8), 3) != later


def test_augmentation_on_the_device_depends_on_seed_and_epoch_alone() -> None:
    images = torch.rand(20, 3, 8, 8)

    def epoch(seed: int, number: int) -> Tensor:
        feed = DeviceFeed(images, torch.zeros(20).long(), 5, seed, CPU, augment=True)
        return torch.cat([x for x, _, _ in batches(feed, number)])

    first = epoch(0, 2)
    torch.rand(3)
    assert torch.equal(first, epoch(0, 2))
    assert not torch.equal(first, epoch(0, 3))
    assert not torch.equal(first, epoch(1, 2))


def test_without_augmentation_the_samples_are_as_stored() -> None:
    images = torch.rand(20, 3, 8, 8)
    feed = DeviceFeed(images, torch.zeros(20).long(), 5, 0, CPU, augment=False)
    for x, _, index in batches(feed, 0):
        assert torch.equal(x, images[index])


def content(feed: LoaderFeed, epoch: int) -> Batch:
    kept = [[part.clone() for part in batch] for batch in batches(feed, epoch)]
    x, y, index = (torch.cat(parts) for parts in zip(*kept, strict=True))
    return x, y, index


@workers_allowed
def test_the_number_of_workers_changes_nothing() -> None:
    alone, two = content(loader_feed(24, 4), 1), content(loader_feed(24, 4, workers=2), 1)
    for here, there in zip(alone, two, strict=True):
        assert torch.equal(here, there)


def test_what_is_drawn_for_a_sample_depends_on_seed_epoch_and_sample() -> None:
    first = content(loader_feed(24, 4), 1)[0]
    torch.rand(3)
    assert torch.equal(first, content(loader_feed(24, 4), 1)[0])
    drawn = {}
    for seed, epoch in ((0, 1), (0, 2), (1, 1)):
        x, _, index = content(loader_feed(24, 4, seed), epoch)
        drawn[seed, epoch] = (x[:, 0] - index)[index.argsort()]
        assert len(set(drawn[seed, epoch].tolist())) == 24  # samples draw differently
    assert not torch.allclose(drawn[0, 1], drawn[0, 2])
    assert not torch.allclose(drawn[0, 1], drawn[1, 1])


def test_reading_leaves_the_programs_own_random_numbers_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    list(batches(loader_feed(8, 4), 0))
    assert torch.equal(torch.rand(3), expected)


@workers_allowed
def test_workers_end_with_the_last_batch_of_the_epoch() -> None:
    """Left to the collector, they end at any time, and a thread that feeds them may then fail."""
    feed = loader_feed(24, 4, workers=2)
    feed.begin(0)
    for _ in range(len(feed)):
        assert len(active_children()) == 2
        feed.fetch()
    assert active_children() == []
    feed.begin(1)
    feed.fetch()


@workers_allowed
def test_workers_leave_ctrl_c_to_the_process_that_trains() -> None:
    answers = LoaderFeed(AnswersToInterrupts(4), 2, 0, CPU, workers=2)
    assert not content(answers, 0)[1].any()
    here = LoaderFeed(AnswersToInterrupts(4), 2, 0, CPU, workers=0)
    assert content(here, 0)[1].all()  # the process itself still does


class Remains:
    """Something that only its own process may collect, and that waits for the collector."""

    def __init__(self, told: Path) -> None:
        self.told, self.myself = told, self

    def __del__(self) -> None:
        self.told.write_text(str(os.getpid()))


class Collecting(Noisy):
    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        gc.collect()
        return super().__getitem__(i)


@workers_allowed
def test_workers_do_not_collect_what_the_process_that_trains_has_left(tmp_path: Path) -> None:
    """It may be a CUDA graph, by which a process ends that has no CUDA of its own."""
    gc.collect()
    gc.disable()
    try:
        Remains(tmp_path / "told")
        content(LoaderFeed(Collecting(8), 4, 0, CPU, workers=1), 0)
    finally:
        gc.enable()
    assert (tmp_path / "told").read_text() == str(os.getpid())


@pytest.mark.parametrize("make", [device_feed, loader_feed])
def test_every_batch_comes_to_the_same_place(make: Any) -> None:
    """A captured graph reads the tensors that it was recorded with."""
    feed = make(12, 4)
    feed.begin(0)
    places = []
    for _ in range(3):
        feed.fetch()
        feed.batch()
        held = [feed.order, feed.place] if isinstance(feed, DeviceFeed) else feed.held
        places.append([part.data_ptr() for part in held])
    feed.begin(1)
    assert places[0] == places[1] == places[2]


def image_feed(part: Part = range) -> DeviceFeed:
    images = torch.arange(20 * 64).view(20, 1, 8, 8).float()
    return DeviceFeed(images, torch.arange(20), 5, 0, CPU, augment=True, part=part)


@pytest.mark.parametrize(
    "make",
    [lambda part: device_feed(23, 5, part=part), lambda part: loader_feed(23, 5, part=part), image_feed],
    ids=["device", "loader", "augmented"],
)
def test_the_parts_of_several_processes_are_the_batches_of_one(make: Any) -> None:
    """Samples, order and what is drawn for each of them; five samples leave parts of unequal length."""
    for epoch in (0, 1):
        whole = [[column.clone() for column in batch] for batch in batches(make(range), epoch)]
        first = [[column.clone() for column in batch] for batch in batches(make(lambda size: range(2)), epoch)]
        second = [[column.clone() for column in batch] for batch in batches(make(lambda size: range(2, size)), epoch)]
        assert len(whole) == len(first) == len(second) == 4
        for expected, parts in zip(whole, zip(first, second, strict=True), strict=True):
            for column, *pieces in zip(expected, *parts, strict=True):
                assert torch.equal(torch.cat(pieces), column)
