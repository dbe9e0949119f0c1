"""Models that are split over processes, distributed checkpoints, and processes whose batches do not fit together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.distributed.split_work import NAMES, ODD, accumulated, few_trusted, larger_batches, lengths, resumed
from tests.gloo_processes import EVEN, VARIANTS, train

NEAR = {"rtol": 1e-8, "atol": 1e-8}
Several = list[dict[str, Any]]


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    return {name: train(0, 1, VARIANTS[name](), range(12), even=name in EVEN) for name in NAMES}


def assert_equal_runs(found: dict[str, Any], expected: dict[str, Any]) -> None:
    torch.testing.assert_close(found["weights"], expected["weights"], **NEAR)
    torch.testing.assert_close(found["parameters"], expected["parameters"], **NEAR)
    assert (expected["weights"] != 1).any()


@pytest.mark.parametrize("name", NAMES)
def test_two_processes_with_parts_of_the_model_give_the_result_of_one(
    name: str, alone: dict[str, Any], two: Several
) -> None:
    for process in two:
        assert_equal_runs(process["split"]["sharded"][name], alone[name])


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_a_distributed_checkpoint_of_two_processes_resumes_in_one_and_in_three(
    alone: dict[str, Any], two: Several, three: Several, folder: Path
) -> None:
    for process in (*three, resumed(0, 1, folder)):
        assert_equal_runs(process["default"], alone["default"])
        # Random weights are drawn for as many rows as the processes send, which are more with three.
        torch.testing.assert_close(process["network"]["weights"], alone["network"]["weights"], **NEAR)


def test_processes_that_share_data_get_the_weights_of_one_process(several: Several) -> None:
    """With four, two processes have other data; all processes start with another seed."""
    expected = train(0, 1, VARIANTS["kl"](), range(8))
    for process in several:
        assert_equal_runs(process["split"]["tensor parallel"], expected)


def test_copies_of_a_split_model_give_the_result_of_one_process(four: Several) -> None:
    expected = train(0, 1, VARIANTS["kl"](), range(8))
    for process in four:
        assert_equal_runs(process["split"]["hybrid"], expected)


def test_fewer_trusted_samples_than_processes(several: Several) -> None:
    expected = few_trusted(0, 1)
    assert (expected != 1).any()
    for process in several:
        torch.testing.assert_close(process["split"]["few trusted"], expected, **NEAR)


def test_one_process_alone_reads_the_results_of_a_split_model(several: Several) -> None:
    first, *others = (process["split"]["one looks"] for process in several)
    assert first.startswith("verdict(held_out=...) runs the model, which is split over several processes: save its")
    assert set(others) == {""}


EXPECTED = {
    "no index": "TypeError: index is missing: wrap the training set in adiw.Indexed",
    "no index, together": "TypeError: batches have no index: pass adiw.Indexed(train_set)",
    "bad index": "is not in the training set: num_train is 40",
    "scalar": "ValueError: criterion returned a scalar; expected one loss per sample",
}


@pytest.mark.parametrize("odd", EXPECTED)
def test_an_error_of_one_process_is_an_error_in_all(odd: str, several: Several) -> None:
    *others, last = (process["split"]["errors"][odd] for process in several)
    assert EXPECTED[odd] in last
    assert set(others) == {f"RuntimeError: process {len(others)} stopped with {last}"}


@pytest.mark.parametrize("odd", sorted(set(ODD) - set(EXPECTED)))
def test_losses_of_different_forms_are_an_error_in_all_processes(odd: str, several: Several) -> None:
    messages = {process["split"]["errors"][odd] for process in several}
    assert len(messages) == 1
    assert "RuntimeError: the processes have different losses, outputs or targets: process 0 sends" in messages.pop()


def test_an_error_in_a_later_step_is_raised_in_all_and_leaves_the_method_usable(several: Several) -> None:
    *others, last = (process["split"]["later error"] for process in several)
    assert [message.split(":")[0] for message in last] == ["TypeError", "ValueError"]
    for found in others:
        assert found == [f"RuntimeError: process {len(others)} stopped with {message}" for message in last]


def test_sequences_that_each_process_pads_to_its_own_length(several: Several) -> None:
    for process in several:
        assert process["split"]["lengths"] == pytest.approx(lengths(0, 1), rel=1e-5)


def test_batches_that_grow_to_a_size_that_is_known_before(several: Several) -> None:
    expected = larger_batches(0, 1)
    assert (expected != 1).any()
    for process in several:
        torch.testing.assert_close(process["split"]["larger batches"], expected, **NEAR)


def test_weights_of_several_batches_together(several: Several) -> None:
    """In parts of unequal size; each process has a part of the model and of each batch."""
    expected = accumulated(0, 1)
    assert (expected[0] != 1).any()
    for process in several:
        torch.testing.assert_close(process["split"]["accumulated"], expected, **NEAR)
