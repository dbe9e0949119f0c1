"""The state of a method in one process and in several: what a step counts and stores, and the summary."""

from __future__ import annotations

import linecache
import math
import warnings
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from adiw.distributed.process_group import Processes
from adiw.reweighting import sample_index
from adiw.reweighting.transforms import TransformedBatch
from adiw.reweighting.validation_schedule import ValidationSchedule
from adiw.reweighting.weight_state import WeightState
from tests.simulated_gpu import PretendCuda
from tests.threaded_process_group import ThreadedProcessGroup, in_threads

NAN, INF = float("nan"), float("inf")


def on_gpu(index: list[int]) -> Tensor:
    return torch.tensor(index).as_subclass(PretendCuda)


def test_a_step_is_counted_and_nonfinite_losses_by_sample() -> None:
    weight_state = WeightState(4, "Uniform()")
    step = weight_state.begin_step(torch.tensor([3, 0, 1]), torch.tensor([1.0, NAN, -INF]))
    weight_state.begin_step(torch.tensor([0]), torch.tensor([INF]))
    assert int(weight_state.seen_steps) == 2
    assert int(weight_state.seen_samples) == 4
    assert weight_state.nonfinite.tolist() == [2, 1, 0, 0]
    assert step.index.tolist() == [3, 0, 1]
    assert step.finite.tolist() == step.local_finite.tolist() == [True, False, False]
    assert step.num_samples == 3
    assert step.is_sample.tolist() == [True] * 3
    assert step.starts_group is False


def test_the_counters_are_large_enough_for_a_long_run() -> None:
    weight_state = WeightState(2, "Uniform()")
    for name in ("seen_steps", "seen_samples", "bad_indices"):
        assert getattr(weight_state, name).dtype == torch.int64
    assert weight_state.nonfinite.dtype == torch.int32  # one for each sample
    assert weight_state.nonfinite.tolist() == [0, 0]


def test_the_warm_up_lasts_the_given_steps_or_one_epoch() -> None:
    states = [WeightState(4, "Uniform()", warmup_steps=steps) for steps in (3, None, 0)]
    index, losses = torch.tensor([0, 1]), torch.ones(2)
    flags = [tuple(state.begin_step(index, losses).past_warmup for state in states) for _ in range(4)]
    no = torch.tensor(False)
    assert flags == [(no, no, None), (no, no, None), (no, None, None), (None, None, None)]


def test_the_host_does_not_read_from_a_device_whether_the_warm_up_is_over() -> None:
    """The meta device simulates a GPU: reading a value from it raises."""
    for steps in (3, None):
        past_warmup = WeightState(4, "Uniform()", warmup_steps=steps).to("meta")._past_warmup()
        assert past_warmup is not None
        assert past_warmup.is_meta


def test_during_the_warm_up_weights_are_one_and_nothing_is_stored() -> None:
    state = WeightState(3, "Uniform()", warmup_steps=1, keep_estimates=True)
    given, index = torch.tensor([2.0, 3.0]), torch.tensor([2, 0])
    for expected, stored in (([1.0, 1.0], [1.0, 1.0, 1.0]), ([2.0, 3.0], [1.0, 1.0, 2.0])):
        step = state.begin_step(index, torch.ones(2))
        assert state.store(step, given, torch.tensor([True, False]), 10 * given).tolist() == expected
        assert state.weights.tolist() == stored
    assert state.estimates.tolist() == [1.0, 1.0, 20.0]
    assert state.read_weights(step).tolist() == [2.0, 1.0]
    assert state.read_estimates(step).tolist() == [20.0, 1.0]
    assert "estimate_slots" in state.state_dict()
    assert "estimate_slots" not in WeightState(3, "Uniform()").state_dict()


def test_nonfinite_samples_keep_their_weights_and_add_nothing() -> None:
    weight_state = WeightState(3, "Uniform()")
    logits = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    losses = logits * torch.tensor([1.0, INF, 1.0])
    step = weight_state.begin_step(torch.tensor([0, 1, 2]), losses)
    weights = torch.tensor([2.0, 5.0, 4.0], dtype=torch.float64)
    weight_state.store(step, weights, step.finite)
    assert weight_state.weights.tolist() == [2.0, 1.0, 4.0]
    mean = weight_state.weighted_mean(step, weights, losses, logits)
    assert mean.dtype == torch.float32
    assert mean.item() == pytest.approx((2 * 1 + 4 * 3) / 3)
    mean.backward()
    assert logits.grad is not None
    assert logits.grad.tolist() == pytest.approx([2 / 3, 0.0, 4 / 3])


@pytest.mark.parametrize("num_train", [0, -3])
def test_an_empty_training_set_is_an_error(num_train: int) -> None:
    with pytest.raises(ValueError, match=f"num_train .*{num_train}"):
        WeightState(num_train, "Uniform()")


def test_a_training_set_may_have_one_sample() -> None:
    weight_state = WeightState(1, "Uniform()")
    weight_state.begin_step(torch.tensor([0]), torch.ones(1))
    assert weight_state.weights.tolist() == [1.0]


def test_losses_on_another_device_are_an_error() -> None:
    with pytest.raises(ValueError, match=r'outputs are on meta, but reweight is on cpu: call reweight\.to\("meta"\)'):
        WeightState(3, "Uniform()").begin_step(torch.tensor([0]), torch.ones(1, device="meta"))


def test_bad_indices_on_a_gpu_are_counted_and_raise_later() -> None:
    weight_state = WeightState(3, "Uniform()")
    for _ in range(2):
        step = weight_state.begin_step(on_gpu([2, 3, -1]), torch.ones(3))
        weight_state.store(step, torch.full((3,), 7.0), step.finite)
    assert weight_state.weights.tolist() == [1.0, 1.0, 7.0]
    for read in (weight_state.summary, weight_state.state_dict):
        with pytest.raises(IndexError, match=r"4 indices so far were not in the training set \(0 to 2\)"):
            read()


def test_one_bad_index_raises() -> None:
    weight_state = WeightState(3, "Uniform()")
    weight_state.begin_step(on_gpu([3]), torch.ones(1))
    with pytest.raises(IndexError, match="1 indices"):
        weight_state.summary()


def test_a_summary_counts_nonfinite_losses_and_lists_the_samples() -> None:
    weight_state = WeightState(4, "Uniform()")
    val_schedule = ValidationSchedule(TensorDataset(torch.zeros(3, 1)), 3, None, torch.Generator())
    val_schedule.nonfinite[1] = 2
    for _ in range(2):
        weight_state.begin_step(torch.tensor([3, 0]), torch.tensor([NAN, 1.0]))
    with pytest.warns(UserWarning, match="were not finite") as caught:
        summary = weight_state.summary(val_schedule)
    assert [str(warning.message) for warning in caught] == [
        "2 training losses so far were not finite and were excluded; training samples: 3",
        "2 validation losses so far were not finite and were excluded; validation samples: 1",
    ]
    assert (summary.steps, summary.nonfinite_train, summary.nonfinite_val) == (2, 2, 2)


def test_the_warning_points_at_the_caller_of_summary() -> None:
    weight_state = WeightState(2, "Uniform()")
    weight_state.begin_step(torch.tensor([1]), torch.tensor([NAN]))
    with pytest.warns(UserWarning, match="training samples: 1") as caught:
        weight_state.summary()
    assert caught[0].filename == __file__
    assert linecache.getline(__file__, caught[0].lineno).strip() == "weight_state.summary()"


def test_finite_losses_are_summarised_without_a_warning() -> None:
    weight_state = WeightState(4, "Uniform()")
    weight_state.store(weight_state.begin_step(torch.tensor([0, 1]), torch.ones(2)), torch.tensor([0.0, 3.0]))
    last: Any = SimpleNamespace(problem=SimpleNamespace(objective=lambda params: params.sum()), end=torch.ones(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain, full = weight_state.summary(), weight_state.summary(bound=3.0, last=last)
    assert (plain.steps, plain.mean, plain.max, plain.share_zero) == (1, 1.25, 3.0, 0.25)
    assert (plain.nonfinite_train, plain.nonfinite_val) == (0, 0)
    assert math.isnan(plain.share_at_bound)
    assert math.isnan(plain.objective)
    assert (full.share_at_bound, full.objective) == (0.25, 2.0)


def test_a_state_is_loaded_only_with_the_same_settings() -> None:
    first, second = WeightState(3, "ADIW(kl)"), WeightState(3, "ADIW(kl)")
    first.store(first.begin_step(torch.tensor([1]), torch.ones(1)), torch.tensor([0.5]))
    second.load_state_dict(first.state_dict())
    assert second.weights.tolist() == [1.0, 0.5, 1.0]
    assert int(second.seen_steps) == 1
    assert "part.weight_slots" in first.state_dict(prefix="part.")
    with pytest.raises(ValueError, match=r"this state was made with ADIW\(kl\), but this is ADIW\(mmd\)"):
        WeightState(3, "ADIW(mmd)").load_state_dict(first.state_dict())


def _two_steps(weight_state: WeightState, rank: int, size: int) -> dict[str, Any]:
    """Two global batches, of which this process has every ``size``-th sample, so that parts differ in size."""
    means, starts, padded, finite = [], [], [], []
    for batch in (torch.tensor([4, 2, 0, 1, 3]), torch.tensor([1, 0, 4])):
        index = batch[rank::size]
        losses = torch.where((index == 2) | (index == 4), NAN, index.double())
        step = weight_state.begin_step(index, losses)
        weights = weight_state.store(step, (step.index + 1).double() / 2, step.finite)
        means.append(weight_state.weighted_mean(step, weights, losses, None))
        starts.append(step.starts_group)
        padded.append(TransformedBatch(*step.processes.gather([losses[:, None], index], [NAN, -1])))
        finite.append(step.finite.tolist())
    return {"weight_state": weight_state, "means": means, "starts": starts, "gathered": padded, "finite": finite}


def test_several_processes_have_the_same_state_as_one() -> None:
    alone = _two_steps(WeightState(5, "Uniform()").double(), 0, 1)

    def member(processes: ThreadedProcessGroup) -> dict[str, Any]:
        weight_state = WeightState(5, "Uniform()").double()
        weight_state.processes = processes
        weight_state.weight_slots.fill_(1.0 + 6 * processes.rank)  # rank 0's state is broadcast
        return _two_steps(weight_state, processes.rank, processes.size)

    members = in_threads(2, member)
    for found in members:
        assert found["starts"] == [True, False]
        for name, expected in alone["weight_state"].state_dict().items():
            if isinstance(expected, Tensor):
                end = -1 if name == "nonfinite_slots" else None  # its last slot counts padding
                mine = found["weight_state"].state_dict()[name]
                assert torch.equal(mine.view(-1)[:end], expected.view(-1)[:end]), name
    for step, expected in enumerate(alone["means"]):
        mean = sum(found["means"][step] for found in members) / 2
        assert mean.item() == pytest.approx(expected.item(), rel=1e-12)


def test_several_processes_gather_all_samples_and_pad_shorter_parts() -> None:
    def member(processes: ThreadedProcessGroup) -> dict[str, Any]:
        weight_state = WeightState(5, "Uniform()").double()
        weight_state.processes = processes
        return _two_steps(weight_state, processes.rank, processes.size)

    found = in_threads(2, member)[0]
    first, second = found["gathered"]
    # The losses of 4 and 2 are not finite, and the last row is padding.
    assert first.z[:, 0].nan_to_num(-9).tolist() == [-9, 0, 3, -9, 1, -9]
    assert found["finite"][0] == [False, True, True, False, True, False]
    assert first.group.tolist() == [4, 0, 3, 2, 1, -1]
    assert second.group.tolist() == [1, 4, -1, 0, -1, -1]


@pytest.mark.parametrize("count", [0, 1])
def test_several_processes_with_at_most_one_sample(count: int) -> None:
    """The mean over the processes is the loss of the only sample, or zero without a sample."""

    def member(processes: ThreadedProcessGroup) -> float:
        weight_state = WeightState(2, "Uniform()")
        weight_state.processes = processes
        index = torch.zeros(count if processes.rank == 0 else 0, dtype=torch.long)
        losses = torch.full((len(index),), 3.0)
        step = weight_state.begin_step(index, losses)
        assert step.processes.gather([losses[:, None], None], [NAN, -1])[1] is None
        return weight_state.weighted_mean(step, weight_state.read_weights(step), losses, None).item()

    assert sum(in_threads(2, member)) / 2 == 3.0 * count


def test_a_sample_twice_in_a_batch_is_an_error_without_repeats() -> None:
    index, losses = torch.tensor([1, 0, 1]), torch.ones(3)
    assert WeightState(3, "Uniform()").begin_step(index, losses).index.tolist() == [1, 0, 1]
    with pytest.raises(ValueError, match="sample 1 is twice in a batch"):
        WeightState(3, "Uniform()", repeats=False).begin_step(index, losses)
    WeightState(3, "Uniform()", repeats=False).begin_step(torch.tensor([1, 0, 2]), losses)


def test_the_warning_is_repeated_when_the_count_has_doubled() -> None:
    weight_state, counts = WeightState(2, "Uniform()"), []
    for _ in range(5):
        weight_state.begin_step(torch.tensor([1]), torch.tensor([NAN]))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            weight_state.summary()
        counts.append(len(caught))
    assert counts == [1, 1, 0, 1, 0]


def test_a_state_of_another_training_set_is_an_error() -> None:
    state = WeightState(3, "Uniform()").get_extra_state()
    assert state == {"settings": "Uniform()", "num_train": 3}
    with pytest.raises(ValueError, match=r"\b3\b.*\b4\b"):
        WeightState(4, "Uniform()").set_extra_state(state)
    WeightState(4, "Uniform()").set_extra_state({"settings": "Uniform()"})  # of an earlier version
    for other in ({"num_train": 4}, "settings"):
        with pytest.raises(ValueError, match="not the state of a weighting method"):
            WeightState(4, "Uniform()").set_extra_state(other)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("repeats", "gpu", "expected"), [(False, False, True), (True, False, False), (False, True, False)]
)
def test_only_an_index_that_was_checked_is_known_to_be_distinct(repeats: bool, gpu: bool, expected: bool) -> None:
    index = on_gpu([1, 0]) if gpu else torch.tensor([1, 0])
    assert WeightState(5, "Uniform()", repeats=repeats).begin_step(index, torch.ones(2)).distinct is expected


def test_another_process_may_have_the_same_sample() -> None:
    def member(processes: ThreadedProcessGroup) -> Tensor:
        state = WeightState(3, "Uniform()", repeats=False)
        state.processes = processes
        step = state.begin_step(torch.tensor([1]), torch.ones(1))
        assert step.distinct is False
        state.store(step, torch.tensor([2.0, 4.0]), step.finite)
        return state.weights

    assert [weights.tolist() for weights in in_threads(2, member)] == [[1.0, 3.0, 1.0]] * 2


def test_a_row_that_pads_is_no_sample() -> None:
    weight_state = WeightState(2, "Uniform()")
    step = replace(weight_state.begin_step(torch.tensor([1, 0]), torch.ones(2)), index=torch.tensor([1, 2]))
    assert step.is_sample.tolist() == [True, False]


def test_a_negative_warm_up_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"^warmup_steps must be at least 0, got -1$"):
        WeightState(2, "Uniform()", warmup_steps=-1)


@pytest.mark.parametrize("keep_estimates", [False, True])
def test_estimates_are_the_weights_unless_they_are_kept_beside_them(keep_estimates: bool) -> None:
    weight_state = WeightState(3, "Uniform()", keep_estimates=keep_estimates)
    step = weight_state.begin_step(torch.tensor([2, 0]), torch.ones(2))
    weight_state.store(step, torch.tensor([4.0, 5.0]), estimates=torch.tensor([2.0, 3.0]))
    assert weight_state.weights.tolist() == [5.0, 1.0, 4.0]
    assert weight_state.estimates.tolist() == ([3.0, 1.0, 2.0] if keep_estimates else [5.0, 1.0, 4.0])
    assert weight_state.read_estimates(step).tolist() == ([2.0, 3.0] if keep_estimates else [4.0, 5.0])


@pytest.mark.parametrize(
    ("past", "mask", "stored"),
    [
        (True, None, [5.0, 1.0, 4.0]),
        (True, [True, False], [1.0, 1.0, 4.0]),
        (False, None, [1.0, 1.0, 1.0]),
        (False, [True, False], [1.0, 1.0, 1.0]),
    ],
)
def test_a_warm_up_that_only_the_device_knows_of_masks_what_is_stored(
    past: bool, mask: list[bool] | None, stored: list[float]
) -> None:
    weight_state = WeightState(3, "Uniform()")
    step = weight_state.begin_step(torch.tensor([2, 0]), torch.ones(2))
    step = replace(step, past_warmup=torch.tensor(past))
    used = weight_state.store(step, torch.tensor([4.0, 5.0]), None if mask is None else torch.tensor(mask))
    assert weight_state.weights.tolist() == stored
    assert used.tolist() == ([4.0, 5.0] if past else [1.0, 1.0])


def test_samples_that_are_known_to_be_distinct_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    weight_state = WeightState(3, "Uniform()", repeats=False, keep_estimates=True)
    monkeypatch.delattr(sample_index, "mean_of_duplicates")
    step = weight_state.begin_step(torch.tensor([2, 0]), torch.ones(2))
    weight_state.store(step, torch.tensor([4.0, 5.0]), estimates=torch.tensor([2.0, 3.0]))
    assert weight_state.weights.tolist() == [5.0, 1.0, 4.0]


def test_the_first_step_starts_the_processes_with_the_method_that_owns_the_state() -> None:
    weight_state, method, started = WeightState(2, "Uniform()"), torch.nn.Linear(1, 1), []

    class Recording(Processes):
        def start(self, method: torch.nn.Module, batch: Tensor, model: Any = None, largest: int = 0) -> bool:
            started.append(method)
            return False

    weight_state.processes = Recording()
    for _ in range(2):
        weight_state.begin_step(torch.tensor([0]), torch.ones(1), method)
    assert started == [method]
