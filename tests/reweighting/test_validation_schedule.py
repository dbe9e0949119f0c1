"""The stream of validation batches: which samples, how often they are evaluated, where a resumed run continues."""

from __future__ import annotations

import io
import signal
from collections import Counter
from typing import Any

import pytest
import torch
from torch import Generator, Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info

from adiw.distributed.process_group import Processes
from adiw.reweighting.dataset_cache import map_tensors
from adiw.reweighting.transforms import TransformedBatch
from adiw.reweighting.validation_schedule import ValidationSchedule
from tests.threaded_process_group import ThreadedProcessGroup, in_threads

SINGLE_PROCESS = Processes()


class Numbers(Dataset[Any]):
    """Sample i is (i, i % 3), optionally with noise. Counts how often each is read."""

    def __init__(self, size: int, noise: float = 0.0) -> None:
        self.size, self.noise, self.reads = size, noise, Counter[int]()

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        self.reads[index] += 1
        return torch.tensor([float(index)]) + (self.noise * torch.rand(1) if self.noise else 0), index % 3


def val_schedule(
    dataset: Any, batch: int, refresh: int | None = None, seed: int = 0, **settings: Any
) -> ValidationSchedule:
    return ValidationSchedule(dataset, batch, refresh, Generator().manual_seed(seed), **settings)


def numbers(batch: Any) -> TransformedBatch:
    """z of a sample is its index, and its group is its label."""
    return TransformedBatch(batch[0], batch[1])


@pytest.mark.parametrize("refresh", [None, 2])
@pytest.mark.parametrize("cache_bytes", [2**20, 0], ids=["cached", "streamed"])
def test_index_z_and_group_of_a_batch_agree(cache_bytes: int, refresh: int | None) -> None:
    stream = val_schedule(Numbers(7), 5, refresh, cache_bytes=cache_bytes)
    for step in range(9):
        batch = stream.batch_for_step(numbers, SINGLE_PROCESS)
        known = ~batch.z[:, 0].isnan()
        assert torch.equal(batch.z[known, 0].long(), batch.index[known])
        assert batch.group is not None
        assert torch.equal(batch.group[known], batch.index[known] % 3)
        assert int(known.sum()) == min((step + 1) * (refresh or 5), 5)


def test_the_stream_cycles_through_the_set_in_one_order() -> None:
    stream = val_schedule(Numbers(7), 3)
    read = torch.cat([stream.next_samples(SINGLE_PROCESS)[0] for _ in range(7)])
    assert read[:7].sort().values.tolist() == list(range(7))
    assert read[:7].tolist() != list(range(7))
    assert torch.equal(read[:7], read[7:14])
    assert torch.equal(read[:7], read[14:])
    other = val_schedule(Numbers(7), 3, seed=1)
    assert not torch.equal(other.order, stream.order)


def test_inputs_that_fit_are_read_only_when_the_stream_is_made() -> None:
    dataset = Numbers(6)
    stream = val_schedule(dataset, 4)
    made = Counter(dataset.reads)
    assert max(made.values()) <= 3  # twice to check that they do not change, and the first once more
    for _ in range(10):
        stream.next_samples(SINGLE_PROCESS)
    assert dataset.reads == made


def test_a_set_over_the_limit_is_streamed_and_gives_the_same_batches() -> None:
    size = 7 * (torch.zeros(1).nbytes + 8)
    large, small = Numbers(7), Numbers(7)
    with pytest.warns(UserWarning, match="the 7 trusted samples"):
        streamed = val_schedule(large, 3, cache_bytes=size - 1)
    cached = val_schedule(small, 3, cache_bytes=size)
    assert streamed.cached is None
    assert cached.cached is not None
    for _ in range(8):
        (i, (x, y)), (j, (u, v)) = streamed.next_samples(SINGLE_PROCESS), cached.next_samples(SINGLE_PROCESS)
        assert torch.equal(i, j)
        assert torch.equal(x, u)
        assert torch.equal(y, v)
    assert sum(large.reads.values()) == 7 + 8 * 3  # once for the size
    assert sum(small.reads.values()) == 7 + 7 + 1  # once to keep, once to compare, and the first once more


def test_a_set_that_changes_is_not_cached() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        stream = val_schedule(Numbers(4, noise=0.5), 4)
        assert stream.cached is None
        first, second = (stream.next_samples(SINGLE_PROCESS)[1][0] for _ in range(2))
    assert torch.equal(first.long(), second.long())
    assert not torch.equal(first, second)


def test_making_a_stream_does_not_change_the_global_generator_even_if_the_set_draws_from_it() -> None:
    before = torch.get_rng_state()
    val_schedule(Numbers(4, noise=0.5), 4)
    assert torch.equal(torch.get_rng_state(), before)


def test_reading_from_the_cache_does_not_change_the_global_generator() -> None:
    stream = val_schedule(Numbers(7), 3)
    before = torch.get_rng_state()
    stream.batch_for_step(numbers, SINGLE_PROCESS)
    assert torch.equal(torch.get_rng_state(), before)


def test_reading_a_stream_does_not_change_the_global_generator() -> None:
    stream = val_schedule(Numbers(7), 3, cache_bytes=0)
    before = torch.get_rng_state()
    stream.batch_for_step(numbers, SINGLE_PROCESS)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("cache_bytes", [2**20, 0], ids=["cached", "streamed"])
def test_a_set_smaller_than_the_batch_is_the_batch(cache_bytes: int) -> None:
    stream = val_schedule(Numbers(3), 256, cache_bytes=cache_bytes)
    for _ in range(3):
        assert stream.batch_for_step(numbers, SINGLE_PROCESS).z[:, 0].sort().values.tolist() == [0.0, 1.0, 2.0]


def test_a_set_of_one_sample() -> None:
    stream = val_schedule(Numbers(1), 4, 2)
    for _ in range(3):
        batch = stream.batch_for_step(numbers, SINGLE_PROCESS)
        assert batch.index.tolist() == [0]
        assert batch.z.tolist() == [[0.0]]


def test_a_partial_refresh_evaluates_only_that_many_and_keeps_the_rest() -> None:
    stream = val_schedule(Numbers(10), 6, 2)
    rows: list[int] = []
    clock = torch.zeros(1)

    def observe(batch: Any) -> TransformedBatch:
        rows.append(len(batch[0]))
        return TransformedBatch(batch[0] + 100 * clock, batch[1])

    for step in range(12):
        clock.fill_(step)
        batch = stream.batch_for_step(observe, SINGLE_PROCESS)
        assert len(batch.index.unique()) == 6  # distinct samples
        seen = ~batch.z[:, 0].isnan()
        assert int(seen.sum()) == min(2 * (step + 1), 6)
        read_at = (batch.z[seen, 0] / 100).floor().long().sort().values
        expected = torch.arange(step - int(seen.sum()) // 2 + 1, step + 1).repeat_interleave(2)
        assert torch.equal(read_at, expected)  # the last samples, each with z from its own step
    assert rows == [2] * 12


@pytest.mark.parametrize("size", [5, 6, 7, 11])
@pytest.mark.parametrize("refresh", [1, 3, 4, 5])
def test_a_batch_has_distinct_samples_for_all_sizes(size: int, refresh: int) -> None:
    stream = val_schedule(Numbers(size), 5, refresh)
    for _ in range(3 * size):
        assert len(stream.batch_for_step(numbers, SINGLE_PROCESS).index.unique()) == 5


@pytest.mark.parametrize("refresh", [None, 2])
@pytest.mark.parametrize("cache_bytes", [2**20, 0], ids=["cached", "streamed"])
def test_a_resumed_stream_continues_where_it_stopped(cache_bytes: int, refresh: int | None) -> None:
    first = val_schedule(Numbers(7), 5, refresh, cache_bytes=cache_bytes)
    for _ in range(4):
        first.batch_for_step(numbers, SINGLE_PROCESS)
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second = val_schedule(Numbers(7), 5, refresh, seed=9, cache_bytes=cache_bytes)
    second.batch_for_step(numbers, SINGLE_PROCESS)  # a stream that is already open elsewhere
    second.load_state_dict(torch.load(file, weights_only=True))
    for _ in range(6):
        a, b = first.batch_for_step(numbers, SINGLE_PROCESS), second.batch_for_step(numbers, SINGLE_PROCESS)
        assert torch.equal(a.index, b.index)
        assert torch.equal(a.z, b.z)
        assert torch.equal(a.group, b.group)


def test_a_fresh_stream_takes_the_state_of_a_fresh_one() -> None:
    first, second = val_schedule(Numbers(7), 5, 2), val_schedule(Numbers(7), 5, 2, seed=9)
    second.batch_for_step(numbers, SINGLE_PROCESS)
    second.load_state_dict(first.state_dict())
    assert second.z is None
    assert torch.equal(
        first.batch_for_step(numbers, SINGLE_PROCESS).index, second.batch_for_step(numbers, SINGLE_PROCESS).index
    )


def test_nonfinite_samples_are_counted_by_index_in_each_evaluation() -> None:
    def observe(batch: Any) -> TransformedBatch:
        z = torch.where(batch[0] == 2, float("inf"), batch[0])
        return TransformedBatch(torch.where(batch[0] == 4, float("nan"), z), batch[1])

    stream = val_schedule(Numbers(6), 6, 3)
    for _ in range(4):
        stream.batch_for_step(observe, SINGLE_PROCESS)
    assert stream.nonfinite.tolist() == [0, 0, 2, 0, 2, 0]


def test_double_changes_z_but_not_the_inputs() -> None:
    stream = val_schedule(Numbers(4), 4, 2).double()
    assert stream.next_samples(SINGLE_PROCESS)[1][0].dtype == torch.float32
    stream.batch_for_step(lambda batch: TransformedBatch(batch[0].double(), batch[1]), SINGLE_PROCESS)
    assert stream.z is not None
    assert stream.float().z.dtype == torch.float32  # type: ignore[union-attr]
    assert stream.batch_index.dtype == torch.int64


def test_mappings_and_texts() -> None:
    items = [{"x": torch.tensor([float(i)]), "y": i} for i in range(4)]
    index, batch = val_schedule(items, 3).next_samples(SINGLE_PROCESS)
    assert batch["x"][:, 0].tolist() == index.tolist()
    texts = [{"x": f"text {i}", "y": i} for i in range(4)]
    stream = val_schedule(texts, 3)
    assert stream.cached is None  # strings cannot be kept on a device
    index, batch = stream.next_samples(SINGLE_PROCESS)
    assert batch["x"] == [f"text {i}" for i in index.tolist()]


def test_worker_processes_give_the_same_batches() -> None:
    alone, helped = val_schedule(Numbers(7), 3, cache_bytes=0), val_schedule(Numbers(7), 3, cache_bytes=0, workers=1)
    for _ in range(4):
        assert torch.equal(alone.next_samples(SINGLE_PROCESS)[1][0], helped.next_samples(SINGLE_PROCESS)[1][0])


class _Stream(IterableDataset[int]):
    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(range(3))


class _CountedStream(_Stream):
    def __len__(self) -> int:
        return 3


def test_invalid_validation_sets() -> None:
    with pytest.raises(TypeError, match=r"got a DataLoader: pass loader\.dataset"):
        val_schedule(DataLoader(Numbers(4)), 2)
    with pytest.raises(ValueError, match="val_set is empty"):
        val_schedule(Numbers(0), 2)
    with pytest.raises(
        TypeError, match=r"val_set must be a map-style data set \(__len__ and __getitem__\), got _Stream"
    ):
        val_schedule(_Stream(), 2)


def test_an_iterable_set_with_a_length_is_an_error() -> None:
    with pytest.raises(TypeError, match="map-style data set"):
        val_schedule(_CountedStream(), 2)


@pytest.mark.parametrize(("batch", "refresh"), [(0, None), (-1, None), (4, 0), (4, -2)])
def test_invalid_sizes(batch: int, refresh: int | None) -> None:
    with pytest.raises(ValueError, match=r"val_(batch|refresh) must be at least 1"):
        val_schedule(Numbers(4), batch, refresh)


def test_map_tensors_keeps_named_tuples() -> None:
    observed = TransformedBatch(torch.zeros(2), torch.ones(2))
    mapped = map_tensors(lambda x: x + 1, [observed, None])
    assert isinstance(mapped, list)
    assert isinstance(mapped[0], TransformedBatch)
    assert mapped[0].group.tolist() == [2.0, 2.0]
    assert mapped[1] is None


def test_only_every_third_step_evaluates_and_the_others_reuse_its_batch() -> None:
    stream = ValidationSchedule(Numbers(10), 4, None, Generator().manual_seed(0), every=3)
    rows: list[int] = []

    def observe(batch: Any) -> TransformedBatch:
        rows.append(len(batch[0]))
        return numbers(batch)

    batches = [stream.batch_for_step(observe, SINGLE_PROCESS).index.tolist() for _ in range(7)]
    assert rows == [4, 4, 4]
    assert batches[0] == batches[1] == batches[2]
    assert batches[3] == batches[4] == batches[5] != batches[0]
    other = ValidationSchedule(Numbers(10), 4, None, Generator().manual_seed(0), every=3)
    other.load_state_dict(stream.state_dict())
    for _ in range(4):  # two more steps that do not evaluate, and one that does
        assert (
            stream.batch_for_step(numbers, SINGLE_PROCESS).index.tolist()
            == other.batch_for_step(numbers, SINGLE_PROCESS).index.tolist()
        )


def test_a_state_contains_the_number_of_steps() -> None:
    first, second = val_schedule(Numbers(10), 4, every=3), val_schedule(Numbers(10), 4, every=3)
    reads = []
    for _ in range(2):
        first.batch_for_step(numbers, SINGLE_PROCESS)
    second.load_state_dict(first.state_dict())
    for _ in range(5):
        second.batch_for_step(lambda batch: (reads.append(second.clock.steps), numbers(batch))[1], SINGLE_PROCESS)
    assert reads == [4, 7]  # the step after the third, and three later


def refresh(stream: ValidationSchedule) -> None:
    stream.refresh(lambda: stream.evaluate_next(numbers, SINGLE_PROCESS))


def test_a_refresh_before_a_step_replaces_the_one_within_it() -> None:
    ahead, within = val_schedule(Numbers(10), 4, 2, every=2), val_schedule(Numbers(10), 4, 2, every=2)
    for _ in range(5):
        refresh(ahead)
        batch, expected = ahead.batch_for_step(refuse, SINGLE_PROCESS), within.batch_for_step(numbers, SINGLE_PROCESS)
        assert torch.equal(batch.index, expected.index)
        torch.testing.assert_close(batch.z, expected.z, rtol=0, atol=0, equal_nan=True)
    assert ahead.clock.steps == within.clock.steps == 5
    ahead.batch_for_step(refuse, SINGLE_PROCESS)  # no evaluation is due
    with pytest.raises(AssertionError, match="must not evaluate"):  # a step without a refresh before it evaluates
        ahead.batch_for_step(refuse, SINGLE_PROCESS)


def refuse(batch: Any) -> TransformedBatch:
    raise AssertionError("this step must not evaluate")


def test_a_state_between_a_refresh_and_its_step_equals_one_before_the_step() -> None:
    first, second = val_schedule(Numbers(10), 4), val_schedule(Numbers(10), 4)
    first.refresh(lambda: None)
    second.load_state_dict(first.state_dict())
    assert second.clock.steps == 1
    reads: list[int] = []
    second.batch_for_step(lambda batch: (reads.append(1), numbers(batch))[1], SINGLE_PROCESS)
    assert reads == [1]


@pytest.mark.parametrize("every", [0, -1])
def test_every_is_a_count(every: int) -> None:
    with pytest.raises(ValueError, match=f"val_every .*{every}"):
        val_schedule(Numbers(4), 2, every=every)


def test_one_sample_in_every_step_is_allowed() -> None:
    stream = val_schedule(Numbers(4), 1, 1)
    assert [len(stream.batch_for_step(numbers, SINGLE_PROCESS).index) for _ in range(3)] == [1, 1, 1]


def test_the_first_batch_ends_the_order_so_that_the_first_refresh_continues_it() -> None:
    stream = val_schedule(Numbers(7), 4, 2)
    assert torch.equal(stream.batch_index, stream.order[-4:])
    assert len(stream) == 7


def test_host_work() -> None:
    assert val_schedule(Numbers(4), 2).host_work is None
    streamed = val_schedule(Numbers(4), 2, cache_bytes=0).host_work
    assert streamed == "the trusted samples are read by the host"


def test_a_nonfinite_vector_counts_once() -> None:
    def observe(batch: Any) -> TransformedBatch:
        z = batch[0].expand(-1, 2).clone()
        z[batch[0][:, 0] == 2, 1] = float("nan")
        z[batch[0][:, 0] == 3] = float("inf")
        return TransformedBatch(z, None)

    stream = val_schedule(Numbers(5), 5, 5)
    stream.batch_for_step(observe, SINGLE_PROCESS)
    assert stream.nonfinite.tolist() == [0, 0, 1, 1, 0]
    assert stream.nonfinite.dtype == torch.int32


def test_without_groups_none_are_stored() -> None:
    stream = val_schedule(Numbers(6), 4, 2)
    batch = stream.batch_for_step(lambda batch: TransformedBatch(batch[0], None), SINGLE_PROCESS)
    assert batch.group is None
    assert stream.group is None


def test_moving_a_stream_moves_all_of_its_tensors() -> None:
    stream = val_schedule(Numbers(6), 4, 2)
    stream.batch_for_step(numbers, SINGLE_PROCESS)
    stream.to("meta")
    assert stream.z is not None
    assert stream.group is not None
    assert stream.cached is not None
    places = {x.device.type for x in (stream.order, stream.z, stream.group, *stream.cached)}
    assert places == {"meta"}


def test_a_loaded_state_is_a_copy() -> None:
    first, second = val_schedule(Numbers(6), 4, 2), val_schedule(Numbers(6), 4, 2)
    first.batch_for_step(numbers, SINGLE_PROCESS)
    second.load_state_dict(first.state_dict())
    assert second.z is not None
    assert first.z is not None
    before = second.z.clone()
    first.z.fill_(7.0)
    assert torch.equal(second.z.nan_to_num(-1), before.nan_to_num(-1))


@pytest.mark.parametrize("cache_bytes", [2**20, 0], ids=["cached", "streamed"])
@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("groups", [True, False])
def test_several_processes_evaluate_the_same_as_one(cache_bytes: int, size: int, groups: bool) -> None:
    def observe(batch: Any) -> TransformedBatch:
        return numbers(batch) if groups else TransformedBatch(batch[0], None)

    def batches(processes: ThreadedProcessGroup | Processes) -> tuple[list[Any], list[int]]:
        stream = val_schedule(Numbers(11), 7, 5, cache_bytes=cache_bytes)
        rows: list[int] = []
        found = []
        for _ in range(5):
            batch = stream.batch_for_step(lambda batch: (rows.append(len(batch[0])), observe(batch))[1], processes)
            found.append([None if x is None else x.clone() for x in (batch.index, batch.z, batch.group)])
        return found, rows

    alone, _ = batches(SINGLE_PROCESS)
    for found, rows in in_threads(size, batches):
        assert rows == [-(-5 // size)] * 5  # each process evaluates only its part
        for (index, z, group), (expected_index, expected_z, expected_group) in zip(found, alone, strict=True):
            assert torch.equal(index, expected_index)
            assert torch.equal(z.nan_to_num(-1), expected_z.nan_to_num(-1))
            assert (group is None) == (expected_group is None)
            assert group is None or torch.equal(group, expected_group)


class _ReadByWorker(Numbers):
    """The label is one if a worker reads the sample, and zero if this process does."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return super().__getitem__(index)[0], int(get_worker_info() is not None)


@pytest.mark.parametrize("workers", [0, 1])
def test_workers_read_the_samples(workers: int) -> None:
    _, (_, by_worker) = val_schedule(_ReadByWorker(4), 4, cache_bytes=0, workers=workers).next_samples(SINGLE_PROCESS)
    assert by_worker.tolist() == [workers] * 4


def test_workers_read_the_cache() -> None:
    dataset = Numbers(4)
    assert val_schedule(dataset, 4, workers=1).cached is not None
    assert not dataset.reads  # in this process


class _Interrupts(Numbers):
    """The label is whether the process that reads a sample ignores Ctrl-C."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return super().__getitem__(index)[0], int(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)


def test_workers_ignore_interrupts() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        _, (_, ignored) = val_schedule(_Interrupts(4), 4, cache_bytes=0, workers=1).next_samples(SINGLE_PROCESS)
        assert ignored.tolist() == [1] * 4
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("repeats", [1, 2])
def test_capturing_a_step_does_not_consume_its_refresh(monkeypatch: pytest.MonkeyPatch, repeats: int) -> None:
    """Capturing a CUDA graph executes nothing: the step follows, as a replay or, after a failure, eagerly."""
    stream = val_schedule(Numbers(7), 3, every=2)
    refresh(stream)
    with monkeypatch.context() as recording:
        recording.setattr("adiw.reweighting.validation_schedule.is_capturing", lambda tensor: True)
        for _ in range(repeats):
            stream.batch_for_step(refuse, SINGLE_PROCESS)
    stream.batch_for_step(refuse, SINGLE_PROCESS)
    assert stream.clock.steps == 1
    assert not stream.clock.refreshed


def test_workers_end_with_the_stream_without_a_garbage_collection() -> None:
    made = val_schedule(Numbers(7), 3, cache_bytes=0, workers=1)
    made.next_samples(SINGLE_PROCESS)
    (worker,) = made._loaded._workers  # type: ignore[union-attr]
    del made
    assert not worker.is_alive()


def test_a_list_is_a_valid_set() -> None:
    assert val_schedule([(torch.tensor([3.0]), 0)], 4).batch_for_step(numbers, SINGLE_PROCESS).z.tolist() == [[3.0]]


@pytest.mark.parametrize("setting", ["cache_bytes", "val_workers"])
def test_errors_of_counts_name_the_argument(setting: str) -> None:
    with pytest.raises(ValueError, match=f"^{setting} must be at least 0"):
        val_schedule(TensorDataset(torch.zeros(2, 1)), 2, **{setting.removeprefix("val_"): -1})


def test_a_state_of_something_else_is_an_error() -> None:
    good = {"z": None, "group": None, "steps": 0}
    for other in (["z"], {**good, "z": "text"}, {**good, "group": "text"}, {**good, "steps": None}, {"z": None}):
        with pytest.raises(ValueError, match="not the state of a validation schedule"):
            val_schedule(TensorDataset(torch.zeros(2, 1)), 2).set_extra_state(other)  # type: ignore[arg-type]
