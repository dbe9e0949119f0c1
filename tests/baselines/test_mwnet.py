"""MW-Net against its definition."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from adiw.baselines import MWNet
from adiw.baselines.mwnet import start_network
from tests.baselines.definitions import CRITERION, FALLBACK, MODELS, build, images, losses_at, mwnet_gradient

N, VAL, RATE = 12, 8, 0.3
TRAIN_BATCH, VAL_BATCH = images(N, seed=1), images(VAL, seed=2)
VAL_SET = TensorDataset(*VAL_BATCH)


def make(model: nn.Module, learning_rate: float = RATE) -> MWNet:
    generator = torch.Generator().manual_seed(0)
    return MWNet(
        model, CRITERION, VAL_SET, N, learning_rate=learning_rate, val_batch=VAL, generator=generator
    ).double()


def step(reweight: MWNet, model: nn.Module) -> torch.Tensor:
    return reweight(model(TRAIN_BATCH[0]), TRAIN_BATCH[1], torch.arange(N), inputs=TRAIN_BATCH[0])


@pytest.mark.parametrize("factory", MODELS.values(), ids=MODELS)
def test_three_steps_are_those_of_the_definition(factory: Callable[[], nn.Module]) -> None:
    """The network V after each step against torch's Adam on the gradient through the virtual step."""
    model = build(factory)
    reweight = make(model)
    network = start_network(generator_after_the_order()).double()
    adam = torch.optim.Adam(network.parameters(), lr=1e-3, weight_decay=1e-4)
    for _ in range(3):
        gradients = mwnet_gradient(model, network, TRAIN_BATCH, VAL_BATCH, RATE)
        assert max(float(gradient.abs().max()) for gradient in gradients) > 1e-5
        for parameter, gradient in zip(network.parameters(), gradients, strict=True):
            parameter.grad = gradient
        adam.step()
        loss = step(reweight, model)
        for got, want in zip(reweight.network.parameters(), network.parameters(), strict=True):
            torch.testing.assert_close(got, want, rtol=0, atol=1e-10)
        losses = losses_at(model, dict(model.named_parameters()), TRAIN_BATCH)
        weights = network(losses.detach()[:, None])[:, 0]
        torch.testing.assert_close(loss, (weights * losses).mean(), rtol=0, atol=1e-10)
        torch.testing.assert_close(reweight.weights, weights.detach(), rtol=0, atol=1e-10)


def generator_after_the_order() -> torch.Generator:
    """A generator that has drawn the order of the validation set, so that V is drawn next."""
    generator = torch.Generator().manual_seed(0)
    torch.randperm(VAL, generator=generator)
    return generator


@pytest.mark.parametrize("factory", [FALLBACK["custom"]])
def test_operators_without_forward_mode(factory: Callable[[], nn.Module]) -> None:
    model = build(factory)
    reweight = make(model)
    gradients = mwnet_gradient(model, reweight.network, TRAIN_BATCH, VAL_BATCH, RATE)
    before = [parameter.detach().clone() for parameter in reweight.network.parameters()]
    with pytest.warns(UserWarning, match="double backward"):
        step(reweight, model)
    # Adam's first step is lr * g / (|g| + eps), with weight decay in g.
    for now, then, gradient in zip(reweight.network.parameters(), before, gradients, strict=True):
        g = gradient + 1e-4 * then
        torch.testing.assert_close(now.detach(), then - 1e-3 * g / (g.abs() + 1e-8), rtol=0, atol=1e-10)


def test_the_learning_rate_is_the_current_one_of_the_optimizer() -> None:
    results = []
    for rate in (RATE, torch.tensor(RATE)):
        model = build(MODELS["mlp"])
        optimizer = torch.optim.SGD(model.parameters(), lr=5.0)
        reweight = MWNet(
            model, CRITERION, VAL_SET, N, optimizer=optimizer, generator=torch.Generator().manual_seed(0)
        ).double()
        optimizer.param_groups[0]["lr"] = rate
        step(reweight, model)
        results.append(reweight.weights)
    model = build(MODELS["mlp"])
    fixed = make(model)
    step(fixed, model)
    torch.testing.assert_close(results[0], fixed.weights, rtol=0, atol=1e-12)
    torch.testing.assert_close(results[1], fixed.weights, rtol=0, atol=1e-7)  # a learning rate in float32


def test_exactly_one_learning_rate() -> None:
    model = build(MODELS["mlp"])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match=r"either optimizer=.* or learning_rate="):
        MWNet(model, CRITERION, VAL_SET, N)
    with pytest.raises(ValueError, match=r"either optimizer=.* or learning_rate="):
        MWNet(model, CRITERION, VAL_SET, N, optimizer=optimizer, learning_rate=0.1)
    with pytest.raises(ValueError, match="learning_rate must be a positive number, got 0"):
        MWNet(model, CRITERION, VAL_SET, N, learning_rate=0.0)


def test_state_holds_the_network_and_its_adam() -> None:
    model = build(MODELS["mlp"])
    reweight = make(model)
    step(reweight, model)
    state = reweight.state_dict()
    assert {"network.0.weight", "network.2.bias"} <= state.keys()
    moments = state["_extra_state"][0]["adam"]["state"]
    assert len(moments) == 4
    assert all({"exp_avg", "exp_avg_sq", "step"} <= moment.keys() for moment in moments.values())


def test_a_change_of_dtype_converts_adam() -> None:
    model = build(MODELS["mlp"])
    reweight = make(model)
    step(reweight, model)
    reweight.float()
    assert all(moment["exp_avg"].dtype == torch.float32 for moment in reweight.adam.state.values())
    assert bool(step(reweight, model).isfinite())
