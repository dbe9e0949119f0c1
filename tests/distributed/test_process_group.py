"""Several processes, each with a part of the batch, give the same weights as one process with the whole batch."""

from __future__ import annotations

import datetime
import warnings
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from adiw import together
from adiw.distributed.process_group import Processes, ProcessGroup, current_processes
from adiw.reweighting.weight_state import WeightState
from tests.gloo_processes import BASELINES, EVEN, VARIANTS, group_of_one, in_processes, train
from tests.threaded_process_group import ThreadedProcessGroup, in_threads

STEPS = range(12)
ALL = {**VARIANTS, **BASELINES}


def train_all(rank: int, size: int) -> dict[str, Any]:
    return {name: train(rank, size, make(), STEPS, even=name in EVEN) for name, make in ALL.items()}


def work(rank: int, size: int, state: Any = None) -> dict[str, Any]:
    """All work that the tests need of processes that do not fail: starting processes takes the most time."""
    return {
        "runs": train_all(rank, size),
        "half": train(rank, size, VARIANTS["mmd"](), range(6)) if state is None else None,
        "rest": None if state is None else train(rank, size, VARIANTS["mmd"](), range(6, 12), state),
        "loaded by rank 0": loaded_by_rank_0(rank, size),
        "larger batch": larger_batch(),
        "wide": current_processes().gather([torch.tensor([2**62 + 1 + rank])], [0], rows=1)[0],
        "narrow index": narrow_index(rank),
        "last write": last_write(rank, size),
        "repeats": repeats(rank, size),
        "ended together": ended_together(rank, size),
        "parts": current_processes().part(2 * size + 1),
    }


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    return train_all(0, 1)


def test_several_processes_give_the_same_weights_as_one(alone: dict[str, Any], several: list[dict[str, Any]]) -> None:
    for found in several:
        for name, expected in alone.items():
            # DIW's quadratic program is ill-conditioned: in twelve steps a rounding error reaches the fifth digit.
            near = {"rtol": 1e-3, "atol": 1e-3} if name == "diw" else {"rtol": 1e-8, "atol": 1e-8}
            run = found["runs"][name]
            torch.testing.assert_close(run["weights"], expected["weights"], msg=name, **near)
            for mine, theirs in zip(run["parameters"], expected["parameters"], strict=True):
                torch.testing.assert_close(mine, theirs, msg=name, **near)
    for name, expected in alone.items():
        assert (expected["weights"] != 1).any() == (name != "uniform"), name


def test_a_checkpoint_of_two_processes_resumes_with_any_number(
    alone: dict[str, Any], two: list[dict[str, Any]], four: list[dict[str, Any]]
) -> None:
    states = [found["half"]["state"]["reweight"] for found in two]
    for key, value in states[0].items():
        if isinstance(value, torch.Tensor):
            other = states[1][key]  # all processes have the same state; nan marks samples not seen yet
            torch.testing.assert_close(other, value, rtol=0, atol=0, equal_nan=True, msg=key)
    in_one = train(0, 1, VARIANTS["mmd"](), range(6, 12), two[0]["half"]["state"])
    for found in (in_one, *(process["rest"] for process in four)):
        torch.testing.assert_close(found["weights"], alone["mmd"]["weights"], rtol=1e-8, atol=1e-8)


def loaded_by_rank_0(rank: int, size: int) -> Any:
    """The method's state after a step, if only rank 0 has loaded a state before it."""
    before = train(rank, size, VARIANTS["network"](), range(3), even=True)["state"]
    after = train(rank, size, VARIANTS["network"](), range(3, 4), before if rank == 0 else None, even=True)
    return after["state"]["reweight"]


def test_a_state_loaded_by_rank_0_is_copied_to_all_processes(several: list[dict[str, Any]]) -> None:
    states = [found["loaded by rank 0"] for found in several]
    theta = [state["_extra_state"][0]["memory"]["theta"] for state in states]
    for other, memory in zip(states[1:], theta[1:], strict=True):
        torch.testing.assert_close(memory, theta[0], rtol=0, atol=0)
        assert torch.equal(other["val_schedule.order"], states[0]["val_schedule.order"])


def larger_batch() -> str:
    processes = current_processes()
    processes.start(nn.Linear(1, 1), torch.zeros(3))
    try:
        processes.gather([torch.zeros(4)], [0])
    except ValueError as error:
        return str(error)
    return ""


def test_batches_must_not_grow(several: list[dict[str, Any]]) -> None:
    for found in several:
        assert "this batch has 4 samples, but the largest first batch of all processes had 3" in found["larger batch"]


def test_parts_are_consecutive_and_of_almost_equal_size(several: list[dict[str, Any]]) -> None:
    parts = [found["parts"] for found in several]
    assert [position for part in parts for position in part] == list(range(2 * len(parts) + 1))
    assert {len(part) for part in parts} == {2, 3}


def narrow_index(rank: int) -> WeightState:
    """Indices in small integer dtypes, which cannot represent the size of the training set."""
    weight_state = WeightState(70_000, "test")
    index = torch.tensor([rank, 100 + rank], dtype=torch.uint8 if rank else torch.int16)
    step = weight_state.begin_step(index, torch.zeros(2))
    weight_state.store(step, 2.0 + step.index, step.finite)
    return weight_state


def test_indices_are_gathered_as_int64(several: list[dict[str, Any]]) -> None:
    for found in several:
        assert found["wide"].tolist() == [2**62 + 1 + rank for rank in range(len(several))]
        expected = torch.ones(70_000)
        for rank in range(len(several)):
            expected[[rank, 100 + rank]] = torch.tensor([2.0 + rank, 102.0 + rank])
        assert torch.equal(found["narrow index"].weights, expected)


def last_write(rank: int, size: int) -> list[float]:
    """The weight of sample 0 that this process reads after each step, in which another process writes it."""
    weight_state, seen = WeightState(size, "test"), []
    for number in range(size):
        index = torch.tensor([(rank + number) % size])  # another sample in each step
        step = weight_state.begin_step(index, torch.zeros(1))
        weight_state.store(step, torch.where(step.index == 0, 10.0 + number, 1.0), step.finite)
        seen.append(float(weight_state.weights[0]))
    return seen


def test_every_process_reads_the_last_write_of_any_process(several: list[dict[str, Any]]) -> None:
    for found in several:
        assert found["last write"] == [10.0 + number for number in range(len(several))]


def repeats(rank: int, size: int) -> dict[str, Any]:
    """A sampler that pads with repeats: the last process has a sample of rank 0, and one of its own twice."""
    parts = [[2 * part, 2 * part + 1, 2 * part + 1] for part in range(size - 1)] + [[0, 90, 90]]
    given = parts[rank] if size > 1 else [0, 1, 1, 0, 90, 90]
    return fixed_batches(rank, size, given)


def fixed_batches(rank: int, size: int, given: list[int]) -> dict[str, Any]:
    batches = [torch.tensor(given)] * 6
    return train(rank, size, {**VARIANTS["mmd"](), "warmup_steps": 0, "repeats": True}, range(6), batches=batches)


def test_repeated_samples_count_as_often_as_they_occur_and_store_the_mean_weight(two: list[dict[str, Any]]) -> None:
    expected = fixed_batches(0, 1, [0, 1, 1, 0, 90, 90])
    for found in two:
        torch.testing.assert_close(found["repeats"]["weights"], expected["weights"], rtol=1e-8, atol=1e-8)
        for mine, theirs in zip(found["repeats"]["parameters"], expected["parameters"], strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-8, atol=1e-8)


def ended_together(rank: int, size: int) -> tuple[list[int], list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        return list(together(range(3 + rank))), [str(warning.message) for warning in caught]


def test_batches_that_end_together(several: list[dict[str, Any]]) -> None:
    for rank, found in enumerate(several):
        batches, messages = found["ended together"]
        assert batches == [0, 1, 2]
        line = f"process {rank} has more than 3 batches, but another process does not: all end here"
        assert messages == ([line] if rank else [])


def one_process_does_not_take_part(rank: int, size: int) -> str:
    """The last process has no more batches but still runs. The others wait until the timeout of their group."""
    group, message = dist.new_group(timeout=datetime.timedelta(seconds=1)), ""
    if rank < size - 1:
        try:
            ProcessGroup(size, rank, group).start(nn.Linear(1, 1), torch.zeros(3))
        except RuntimeError as error:
            message = str(error)
    dist.barrier()
    return message


def test_a_process_that_does_not_take_part_is_an_error() -> None:
    first, second = in_processes(2, one_process_does_not_take_part)
    assert "another process did not take part in this step" in first
    assert "adiw.together(loader), which ends in the same step in all processes" in first
    assert second == ""


def one_process_ends_early(rank: int, size: int) -> str:
    try:
        train(rank, size, VARIANTS["kl"](), range(5 if rank == 0 else 3))
    except RuntimeError as error:
        return str(error)
    return ""


def test_a_process_that_ends_early_is_an_error_for_the_others() -> None:
    first, second = in_processes(2, one_process_ends_early)
    assert second == ""
    assert "same number of batches" in first or "Connection" in first  # ADIW's error or DistributedDataParallel's


def test_torchrun_without_a_process_group_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    Processes().start(nn.Linear(1, 1), torch.zeros(3))  # WORLD_SIZE alone may come from a scheduler
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    with pytest.raises(RuntimeError, match="torchrun started 2 processes, but they have no process group: call"):
        train(0, 1, VARIANTS["kl"](), range(1))


def test_a_single_process_gathers_nothing() -> None:
    processes, values = current_processes(), torch.arange(3)
    assert type(processes) is Processes
    assert (processes.size, processes.rank, processes.offset) == (1, 0, 0)
    assert processes.start(nn.Linear(1, 1), values) is False
    assert processes.gather([values, None], [0, 0]) == [values, None]
    assert processes.split(values) is values
    assert processes.join([values, None], 3) == [values, None]
    assert processes.split_weights(3, values.device) == 1
    assert processes.broadcast_object(values) is values
    assert processes.part(3) == range(3)
    assert [processes.any(flag) for flag in (True, False)] == [True, False]
    with group_of_one():
        assert type(current_processes()) is Processes


@pytest.mark.parametrize("size", [2, 3])
def test_split_parts_join_to_the_whole_and_their_weighted_means_add_up_to_its_mean(size: int) -> None:
    values = torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0], dtype=torch.float64)

    def member(processes: ThreadedProcessGroup) -> tuple[list[float], list[float], float]:
        part, weights = processes.split(values), processes.split_weights(5, values.device)
        assert isinstance(weights, Tensor)
        mean = (weights * part).mean()
        processes.sum_([mean])
        joined, nothing = processes.join([part, None], 5)
        assert nothing is None
        return (weights > 0).tolist(), joined.tolist(), float(mean)

    found = in_threads(size, member)
    assert [real for reals, _, _ in found for real in reals] == [True] * 5 + [False]
    assert [joined for _, joined, _ in found] == [values.tolist()] * size
    assert [mean for _, _, mean in found] == pytest.approx([float(values.mean())] * size, rel=1e-12)
