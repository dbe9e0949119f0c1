"""Several processes with a part of the batch each give the weights of one process with all of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from adiw import Features
from adiw.divergences import KL, MMD, Squared, Wasserstein
from adiw.team import Team
from tests.several import in_processes, train

VARIANTS: dict[str, Callable[[], dict[str, Any]]] = {
    "kl": lambda: {"divergence": KL()},
    "mmd": lambda: {"divergence": MMD(width=0.3)},
    "mmd local": lambda: {"divergence": MMD(width=0.3, step="local"), "val_refresh": 5, "val_every": 2},
    "squared": lambda: {"divergence": Squared(width=0.3)},
    "wasserstein": lambda: {"divergence": Wasserstein()},
    "network": lambda: {"divergence": Wasserstein(critic="network", pretrain=2, learning_rate=1e-3)},
    "features": lambda: {"transform": Features("1", num_classes=4), "divergence": KL()},
    "streamed, exact, mean one": lambda: {"cache_bytes": 0, "exact": True, "mean_one": True},
}
STEPS = range(12)


def train_all(rank: int, size: int) -> dict[str, Any]:
    # The network's random numbers are drawn for every row, also for those that pad an uneven batch.
    return {name: train(rank, size, make(), STEPS, even=name == "network") for name, make in VARIANTS.items()}


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    return train_all(0, 1)


@pytest.mark.parametrize("size", [2, 4])
def test_parts_give_what_the_whole_gives(alone: dict[str, Any], size: int) -> None:
    for found in in_processes(size, train_all):
        for name, expected in alone.items():
            torch.testing.assert_close(found[name]["weights"], expected["weights"], rtol=1e-8, atol=1e-8, msg=name)
            for mine, theirs in zip(found[name]["parameters"], expected["parameters"], strict=True):
                torch.testing.assert_close(mine, theirs, rtol=1e-8, atol=1e-8)
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
