"""The cache of a data set: small and constant sets are kept, and workers read them if there are any."""

from __future__ import annotations

import inspect
import random
import re
import resource
import signal
import warnings
from collections import Counter, namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator, Tensor, nn
from torch.utils.data import Dataset, TensorDataset, get_worker_info

import adiw
from adiw.baselines import DIW, L2R, MWNet
from adiw.baselines.baseline import Baseline
from adiw.reweighting import dataset_cache
from adiw.reweighting.dataset_cache import CACHE_BYTES, read_all
from adiw.reweighting.validation_schedule import ValidationSchedule

Point = namedtuple("Point", "x y")


class Numbers(Dataset[Any]):
    """Sample i is (i, i % 3), modified by ``change``. Counts how often this process reads each sample."""

    def __init__(self, size: int, change: Any = None) -> None:
        self.size, self.change, self.reads = size, change, Counter[int]()

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Any:
        self.reads[index] += 1
        x, y = torch.tensor([float(index)]), index % 3
        return (x, y) if self.change is None else self.change(x, y)


def numbers(whole: Any) -> list[float]:
    assert whole is not None
    (column, _) = whole.values() if isinstance(whole, dict) else whole
    found: list[float] = column[:, 0].tolist()
    return found


@pytest.mark.parametrize(
    ("size", "workers"), [(1, 0), (64, 0), (65, 0), (300, 0), (1, 1), (64, 1), (65, 2), (300, 2)]
)
def test_all_samples_are_read_in_order(size: int, workers: int) -> None:
    whole = read_all(Numbers(size), workers=workers)
    assert numbers(whole) == list(range(size))
    assert whole[1].tolist() == [i % 3 for i in range(size)]


def test_only_some_samples_of_a_large_set_are_read_again() -> None:
    dataset = Numbers(1000)
    assert numbers(read_all(dataset)) == list(range(1000))
    assert sum(dataset.reads.values()) <= 1000 + 1 + 256
    again = [index for index, times in dataset.reads.items() if times > 1]
    assert len(again) > 200
    assert (min(again), max(again)) == (0, 999)


def test_with_workers_this_process_reads_nothing() -> None:
    """Workers that start later would share a file that the set opens when it is first read."""
    dataset = Numbers(100)
    assert numbers(read_all(dataset, workers=1)) == list(range(100))
    assert not dataset.reads


def test_with_zero_cache_bytes_nothing_is_read() -> None:
    dataset = Numbers(10)
    assert read_all(dataset, cache_bytes=0) is None
    assert not dataset.reads


GENERATORS: dict[str, Any] = {
    "python": lambda: (lambda own: lambda x, y: (x + own.random(), y))(random.Random(0)),
    "numpy": lambda: (lambda own: lambda x, y: (x + own.random(), y))(np.random.default_rng(0)),
    "torch": lambda: (lambda own: lambda x, y: (x + torch.rand(1, generator=own), y))(Generator()),
    "torch, flips": lambda: (lambda own: lambda x, y: (x * torch.randint(2, (1,), generator=own), y))(Generator()),
    "the global one": lambda: lambda x, y: (x + torch.rand(1), y),
    "the global one, seldom": lambda: lambda x, y: (x + (torch.rand(1) < 0.05), y),
}


@pytest.mark.parametrize(("size", "workers"), [*((n, 0) for n in (1, 2, 64, 65, 200)), (1, 1), (65, 1), (65, 2)])
@pytest.mark.parametrize("kind", GENERATORS)
def test_a_set_that_changes_is_not_kept(kind: str, size: int, workers: int) -> None:
    """From any generator: the set's own generator has the same state in every new worker."""
    if size < 64 and kind in ("torch, flips", "the global one, seldom"):
        pytest.skip("a set this small may stay the same by chance")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        assert read_all(Numbers(size, GENERATORS[kind]()), workers=workers) is None


@pytest.mark.parametrize("workers", [0, 1])
def test_the_global_generator_does_not_change(workers: int) -> None:
    before = torch.get_rng_state()
    read_all(Numbers(70, lambda x, y: (x + torch.rand(1), y)), workers=workers)
    read_all(Numbers(70), workers=workers)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_nan_stays_a_nan() -> None:
    assert read_all(TensorDataset(torch.tensor([[0.0], [float("nan")]]), torch.zeros(2))) is not None


class _SometimesNan(Numbers):
    """A sample is nan when it is read again."""

    def __getitem__(self, index: int) -> Any:
        x, y = super().__getitem__(index)
        return x if self.reads[index] != 2 else x * float("nan"), y


def test_a_set_that_becomes_nan_is_not_kept() -> None:
    assert read_all(_SometimesNan(4)) is None


def test_mappings_may_have_their_keys_in_any_order() -> None:
    def item(x: Tensor, y: int) -> dict[str, Any]:
        return {"x": x, "y": y} if x < 64 else {"y": y, "x": x}

    whole = read_all(Numbers(130, item))
    assert list(whole) == ["x", "y"]
    assert numbers(whole) == list(range(130))


def test_named_tuples_keep_their_names() -> None:
    whole = read_all(Numbers(70, Point))
    assert whole.x[:, 0].tolist() == list(range(70))
    assert whole.y[:4].tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize(
    "item",
    [lambda x, y: (x, y if x < 64 else y + 0.5), lambda x, y: (x.expand(3) if x < 64 else x, y)],
    ids=["another type", "another shape"],
)
def test_samples_of_different_shapes_or_dtypes_are_not_kept(item: Any) -> None:
    assert read_all(Numbers(128, item)) is None


def test_many_batches_do_not_need_many_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(128, hard), hard))
    try:
        assert numbers(read_all(Numbers(64 * 150), workers=1)) == list(range(64 * 150))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_workers_ignore_interrupts() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background may ignore it
    try:
        dataset = Numbers(4, lambda x, y: (x, int(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)))
        assert read_all(dataset, workers=1)[1].tolist() == [1] * 4
        assert read_all(dataset)[1].tolist() == [0] * 4
    finally:
        signal.signal(signal.SIGINT, before)


def test_up_to_a_gibibyte_is_kept_by_default() -> None:
    assert CACHE_BYTES == 2**30
    for kind in (ValidationSchedule, adiw.ADIW, Baseline):
        assert inspect.signature(kind).parameters["cache_bytes"].default == CACHE_BYTES


METHODS: dict[str, Any] = {
    "adiw": adiw.ADIW,
    "diw": DIW,
    "l2r": L2R,
    "mw-net": lambda *basics, **given: MWNet(*basics, learning_rate=0.1, **given),
}


@pytest.mark.parametrize("method", METHODS)
def test_a_set_above_the_limit_warns_with_the_arguments_to_pass(method: str) -> None:
    model, criterion = nn.Linear(1, 3), nn.CrossEntropyLoss(reduction="none")
    message = (
        r"the 70 trusted samples take 840 bytes, more than cache_bytes=839: .* Pass cache_bytes=840 .* or val_workers"
    )
    with pytest.warns(UserWarning, match=message) as caught:
        made = METHODS[method](model, criterion, Numbers(70), 100, cache_bytes=839)
    assert caught[0].filename == __file__
    assert made.val_schedule.cached is None
    assert METHODS[method](model, criterion, Numbers(70), 100, cache_bytes=840).val_schedule.cached is not None


@pytest.mark.parametrize("given", [{"cache_bytes": 0}, {"cache_bytes": 8, "workers": 1}], ids=str)
def test_streaming_on_purpose_needs_no_warning(given: dict[str, int]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_all(Numbers(7), **given) is None


def test_every_method_passes_val_workers_to_the_cache() -> None:
    model, criterion = nn.Linear(1, 3), nn.CrossEntropyLoss(reduction="none")

    class ReadByWorker(Numbers):
        def __getitem__(self, index: int) -> Any:
            return super().__getitem__(index)[0], index * int(get_worker_info() is not None) % 3

    for make in METHODS.values():
        made = make(model, criterion, ReadByWorker(4), 100, val_workers=1)
        assert made.val_schedule.cached[1].tolist() == [0, 1, 2, 0]


CACHE = "reweighting/dataset_cache.py"


@pytest.mark.parametrize(
    "file", ["engine/train_loader.py", "experiments/epoch_evaluation.py", "reweighting/validation_schedule.py", CACHE]
)
def test_no_worker_collects_the_garbage_of_the_training_process(file: str) -> None:
    """tests/engine/test_train_loader.py tests why this is needed."""
    source = Path(dataset_cache.__file__).parents[1]
    having = {str(path.relative_to(source)) for path in source.rglob("*.py") if "num_workers=" in path.read_text()}
    assert file in having
    assert len(having) == 4
    text = (source / file).read_text()
    assert text.count("DataLoader(\n") == len(re.findall(r"[ (]start\(loader\)", text)) == 1
    assert ("iter(loader)" in text) == (file == CACHE)
