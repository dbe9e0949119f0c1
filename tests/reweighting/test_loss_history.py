"""The mean loss of every sample: what counts, what does not, and what is kept over a checkpoint."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from adiw import ADIW
from adiw.baselines import Uniform
from adiw.matching import batches
from adiw.reweighting.sample_record import EARLY_STEPS, LossHistory
from adiw.reweighting.weight_state import WeightState

X, Y = torch.randn(6, 2, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 3


def test_every_finite_loss_of_a_step_counts_once() -> None:
    state = WeightState(4, "Uniform()")
    state.begin_step(torch.tensor([3, 1]), torch.tensor([2.0, torch.inf]))
    state.begin_step(torch.tensor([3, 3, 0]), torch.tensor([5.0, 2.0, 0.5]))
    assert state.history.loss_counts.tolist() == [1, 0, 0, 3, 0]
    means = state.history.means()
    assert means[[0, 3]].tolist() == [0.5, 3.0]
    assert means[[1, 2]].isnan().all()


def test_a_last_pass_is_one_more_loss_and_covers_samples_that_were_not_seen() -> None:
    history = LossHistory(3)
    history.add(torch.tensor([0, 0, 1]), torch.tensor([1.0, 3.0, 4.0]), torch.ones(3, dtype=torch.bool))
    assert history.means(torch.tensor([5.0, torch.nan, 7.0])).tolist() == [3.0, 4.0, 7.0]


def trained(reweight: Any, model: nn.Module) -> Any:
    x, y = torch.randn(6, 2, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 3
    for _ in range(3):
        reweight(model(x), y, torch.arange(6))
    return reweight


@pytest.mark.parametrize("divergence", [None, "kl", "mmd"])
def test_weights_and_their_warm_up_do_not_change_the_history(divergence: str | None) -> None:
    model, criterion = nn.Linear(2, 3), nn.CrossEntropyLoss(reduction="none")
    trusted = torch.utils.data.TensorDataset(torch.randn(8, 2), torch.arange(8) % 3)
    uniform = trained(Uniform(model, criterion, None, 6), model)
    with pytest.warns(UserWarning, match="only 8 trusted samples"):
        reweight = ADIW(model, criterion, trusted, 6, divergence, warmup_steps=1)
    assert torch.equal(trained(reweight, model).weight_state.history.means(), uniform.weight_state.history.means())


def test_it_is_part_of_the_state() -> None:
    model, criterion = nn.Linear(2, 3), nn.CrossEntropyLoss(reduction="none")
    state = trained(Uniform(model, criterion, None, 6), model).state_dict()
    fresh = Uniform(model, criterion, None, 6)
    fresh.load_state_dict(state)
    assert fresh.weight_state.history.loss_counts[:-1].tolist() == [3] * 6


def test_the_host_ends_the_early_steps_not_before_they_are_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """It multiplies the number of steps by the smallest batch. After a resume it counts anew."""
    monkeypatch.setattr(batches, "host_can_read", lambda _values: False)  # as on a GPU
    model, num_train = nn.Linear(2, 3), 700
    reweight = ADIW(model, nn.CrossEntropyLoss(reduction="none"), torch.utils.data.TensorDataset(X, Y), num_train)
    generator, ended = torch.Generator().manual_seed(0), []
    for step in range(400):
        if step == 10:
            reweight.load_state_dict(copy.deepcopy(reweight.state_dict()))
        if reweight.outdates_graphs():
            ended.append(step)
        count = 3 + int(torch.randint(4, (), generator=generator))
        reweight(model(X[:count]), Y[:count], torch.arange(count))
        state = reweight.weight_state
        over = int(state.seen_steps) > EARLY_STEPS and int(state.seen_samples) > num_train
        assert over or not ended
    assert ended == [10 + num_train // 3 + 1]
