"""Several processes with a part of the batch each give the weights of one process with all of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from adiw.team import Team
from tests.several import BASELINES, EVEN, VARIANTS, in_processes, train

STEPS = range(12)
ALL = {**VARIANTS, **BASELINES}


def train_all(rank: int, size: int) -> dict[str, Any]:
    return {name: train(rank, size, make(), STEPS, even=name in EVEN) for name, make in ALL.items()}


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    return train_all(0, 1)


@pytest.mark.parametrize("size", [2, 4])
def test_parts_give_what_the_whole_gives(alone: dict[str, Any], size: int) -> None:
    for found in in_processes(size, train_all):
        for name, expected in alone.items():
            # DIW's quadratic program is all but singular: in twelve steps it makes a last digit a fifth one.
            near = {"rtol": 1e-3, "atol": 1e-3} if name == "diw" else {"rtol": 1e-8, "atol": 1e-8}
            torch.testing.assert_close(found[name]["weights"], expected["weights"], msg=name, **near)
            for mine, theirs in zip(found[name]["parameters"], expected["parameters"], strict=True):
                torch.testing.assert_close(mine, theirs, msg=name, **near)
    assert any((expected["weights"] != 1).any() for expected in alone.values())


@pytest.mark.parametrize("size", [1, 4])
def test_a_checkpoint_of_two_processes_goes_on_in_any_number(alone: dict[str, Any], size: int) -> None:
    first = in_processes(2, train, VARIANTS["mmd"](), range(6))
    states = [found["state"]["reweight"] for found in first]
    for key, value in states[0].items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, states[1][key]), key  # every process could have written it
    arguments = (VARIANTS["mmd"](), range(6, 12), first[0]["state"])
    rest = [train(0, 1, *arguments)] if size == 1 else in_processes(size, train, *arguments)
    for found in rest:
        torch.testing.assert_close(found["weights"], alone["mmd"]["weights"], rtol=1e-8, atol=1e-8)


def one_runs_out(rank: int, size: int) -> str:
    try:
        train(rank, size, VARIANTS["kl"](), range(5 if rank == 0 else 3))
    except RuntimeError as error:
        return str(error)
    return ""


def test_a_process_that_runs_out_of_batches_is_an_error_for_the_others() -> None:
    first, second = in_processes(2, one_runs_out)
    assert second == ""
    assert "same number of batches" in first or "Connection" in first  # whichever wrapper meets it first


def larger_batch(rank: int, size: int) -> str:
    team = Team()
    team.prepare(3, torch.zeros(1))
    try:
        team.prepare(4, torch.zeros(1))
    except ValueError as error:
        return str(error)
    return ""


def test_batches_must_not_grow() -> None:
    for message in in_processes(2, larger_batch):
        assert "a batch of 4 samples, but the largest first batch of all processes had 3" in message


def test_a_process_alone_gathers_nothing() -> None:
    team, values = Team(), torch.arange(3)
    assert (team.size, team.rank, team.prepare(3, values)) == (1, 0, False)
    assert team.gather(values, 0) is values
    assert team.own(values, 3) is values
