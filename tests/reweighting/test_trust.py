"""Trusted samples that are replaced while training goes on."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import ConcatDataset, TensorDataset

import adiw

CRITERION = nn.CrossEntropyLoss(reduction="none")
N = 300


def samples(n: int, seed: int, rule: int = 0) -> tuple[Tensor, Tensor]:
    x = torch.randn(n, 6, generator=torch.Generator().manual_seed(seed))
    return x, x[:, rule : rule + 3].argmax(1)


def run(reweight: adiw.ADIW, model: nn.Module, data: tuple[Tensor, Tensor], steps: int, seed: int) -> list[float]:
    optimizer, generator = torch.optim.SGD(model.parameters(), 0.2), torch.Generator().manual_seed(seed)
    losses = []
    for _ in range(steps):
        index = torch.randperm(len(data[0]), generator=generator)[:50]
        loss = reweight(model(data[0][index]), data[1][index], index)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def mixed() -> tuple[Tensor, Tensor]:
    """Half of the samples have labels by one rule, half by another."""
    first, second = samples(N // 2, 0), samples(N // 2, 1, rule=3)
    return torch.cat([first[0], second[0]]), torch.cat([first[1], second[1]])


@pytest.mark.parametrize("divergence", [None, "kl", "mmd"])
def test_weights_follow_the_new_trusted_samples(divergence: str | None) -> None:
    """The loss of a sample is its input: half of the training samples have small ones, half large ones."""
    torch.manual_seed(0)
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    x = torch.cat([torch.rand(N // 2, 1), 3 + torch.rand(N // 2, 1)])
    reweight = adiw.ADIW(model, lambda o, t: o[:, 0], TensorDataset(x[::3].clone(), x[::3, 0]), N, divergence)

    def means() -> tuple[Tensor, Tensor]:
        for _ in range(40):
            index = torch.randperm(N)[:60]
            reweight(model(x[index]), x[index, 0], index)
        return reweight.weights[: N // 2].mean(), reweight.weights[N // 2 :].mean()

    small, large = means()
    assert small < 1.2 * large
    before = reweight.weights.clone()
    reweight.trust(TensorDataset(torch.rand(80, 1), torch.zeros(80)))
    assert torch.equal(reweight.weights, before)
    small, large = means()
    assert small > 3 * large


@pytest.mark.parametrize("divergence", [None, "kl", "mmd"])
@pytest.mark.parametrize("join", [True, False])
def test_a_state_that_is_made_later_resumes_exactly(divergence: str | None, join: bool) -> None:
    torch.manual_seed(0)
    model, data = nn.Linear(6, 3), mixed()
    few, more = samples(40, 2), samples(40, 3)
    both = ConcatDataset([TensorDataset(*few), TensorDataset(*more)])
    inside = adiw.Indexed(TensorDataset(data[0][:-80], data[1][:-80]), both)
    first = adiw.Indexed(TensorDataset(data[0][:-40], data[1][:-40]), TensorDataset(*few)).trusted
    reweight = adiw.ADIW(model, CRITERION, first if join else TensorDataset(*few), N, divergence)
    run(reweight, model, data, 20, 0)
    reweight.trust(inside.trusted if join else both)
    run(reweight, model, data, 20, 1)
    states = copy.deepcopy((model.state_dict(), reweight.state_dict()))
    expected = run(reweight, model, data, 20, 2)
    other = nn.Linear(6, 3)
    resumed = adiw.ADIW(other, CRITERION, inside.trusted if join else both, N, divergence)
    other.load_state_dict(states[0])
    resumed.load_state_dict(states[1])
    assert run(resumed, other, data, 20, 2) == expected


def test_between_the_parts_of_an_accumulated_step_the_next_call_has_the_new_samples() -> None:
    torch.manual_seed(0)
    model, data = nn.Linear(6, 3), mixed()
    reweight = adiw.ADIW(model, CRITERION, TensorDataset(*samples(40, 2)), N, "kl", warmup_steps=0)
    reweight(model(data[0][:20]), data[1][:20], torch.arange(20)).backward()
    reweight.trust(TensorDataset(*samples(70, 3)))
    reweight(model(data[0][20:40]), data[1][20:40], torch.arange(20, 40)).backward()
    assert reweight.val_schedule.batch().z.shape == (70, 1)
    assert int((~reweight.estimator.coefficients.isnan()).sum()) == 70


def test_trusted_samples_that_cannot_be_used() -> None:
    model, data = nn.Linear(6, 3), mixed()
    stream = adiw.ADIW(model, CRITERION, TensorDataset(*samples(40, 2)), None)
    with pytest.raises(ValueError, match="the training set has no index"):
        stream.trust(adiw.Indexed(TensorDataset(*data), TensorDataset(*samples(40, 3))).trusted)
    with pytest.raises(ValueError, match="val_set is empty"):
        stream.trust(TensorDataset(torch.zeros(0, 6), torch.zeros(0).long()))
    assert len(stream.val_schedule) == 40
