"""L2R against its definition."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from adiw.baselines import L2R
from tests.baselines.definitions import CRITERION, FALLBACK, MODELS, Batch, Tied, build, images, l2r_weights
from tests.baselines.suite import same, through_a_file

N, VAL = 12, 8
TRAIN_BATCH, VAL_BATCH = images(N, seed=1), images(VAL, seed=2)


def make(model: nn.Module, val: Batch = VAL_BATCH) -> L2R:
    """L2R whose validation batch is the whole validation set, so that the order does not matter."""
    return L2R(model, CRITERION, TensorDataset(*val), N, val_batch=VAL).double()


def step(reweight: L2R, model: nn.Module, batch: Batch = TRAIN_BATCH) -> torch.Tensor:
    return reweight(model(batch[0]), batch[1], torch.arange(len(batch[1])), inputs=batch[0])


@pytest.mark.parametrize("factory", MODELS.values(), ids=MODELS)
def test_weights_are_those_of_the_definition(factory: Callable[[], nn.Module]) -> None:
    model = build(factory)
    reweight = make(model)
    loss = step(reweight, model)
    expected = l2r_weights(model, TRAIN_BATCH, VAL_BATCH)
    assert 0 < int((expected > 0).sum()) < N  # both kinds occur
    torch.testing.assert_close(reweight.weights / N, expected, rtol=0, atol=1e-10)
    losses = CRITERION(model(TRAIN_BATCH[0]), TRAIN_BATCH[1])
    torch.testing.assert_close(loss, (expected * losses).sum(), rtol=0, atol=1e-10)


@pytest.mark.parametrize("mode", [True, False])
def test_passes_run_in_the_mode_of_the_model(mode: bool) -> None:
    model = build(MODELS["batch_norm"])
    model(images(50, seed=5)[0])  # running averages that differ from the batch's statistics
    model.train(mode)
    reweight = make(model)
    step(reweight, model)
    expected = l2r_weights(model, TRAIN_BATCH, VAL_BATCH)
    torch.testing.assert_close(reweight.weights / N, expected, rtol=0, atol=1e-10)
    model.train(not mode)
    assert not torch.allclose(l2r_weights(model, TRAIN_BATCH, VAL_BATCH), expected, atol=1e-3)


@pytest.mark.parametrize("factory", FALLBACK.values(), ids=FALLBACK)
def test_operators_without_forward_mode_use_double_backward_and_warn_once(factory: Callable[[], nn.Module]) -> None:
    model = build(factory, torch.float32)
    train, val = images(N, 1, torch.float32), images(VAL, 2, torch.float32)
    reweight = make(model, val)
    with pytest.warns(UserWarning, match="cannot be differentiated in forward mode .* double backward"):
        step(reweight, model, train)
    torch.testing.assert_close(reweight.weights.float() / N, l2r_weights(model, train, val), rtol=1e-4, atol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(reweight, model, train)
        resumed = make(model, val)
        resumed.load_state_dict(through_a_file(reweight.state_dict()))
        step(resumed, model, train)  # does not try forward mode again
    step(reweight, model, train)
    assert same(resumed.weights, reweight.weights)


def test_errors_of_the_model_are_not_taken_for_a_missing_forward_mode() -> None:
    model = build(MODELS["mlp"])
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        make(model)(model(TRAIN_BATCH[0]), TRAIN_BATCH[1], torch.arange(N), inputs=TRAIN_BATCH[0][:, :, :5])


def test_shared_unused_and_frozen_parameters() -> None:
    model = build(Tied)
    reweight = make(model)
    step(reweight, model)
    model.unused = None  # the definition above cannot handle a parameter without a gradient
    expected = l2r_weights(model, TRAIN_BATCH, VAL_BATCH)
    torch.testing.assert_close(reweight.weights / N, expected, rtol=0, atol=1e-10)
    model.first.bias.requires_grad_(False)
    step(reweight, model)
    assert not torch.allclose(reweight.weights / N, expected, atol=1e-6)


def test_compiled_models() -> None:
    model = build(MODELS["cnn"])
    reweight = make(model)
    step(reweight, model)
    compiled = torch.compile(model, backend="aot_eager")
    other = make(compiled)
    step(other, compiled)
    torch.testing.assert_close(other.weights, reweight.weights, rtol=0, atol=1e-10)


def test_weights_are_zero_if_all_products_are_negative() -> None:
    """The validation labels contradict the training labels, so every product is negative. Then 0 / 0 counts as 0."""
    model = nn.Linear(1, 2, bias=False).double()
    with torch.no_grad():
        model.weight.zero_()
    ones = torch.ones(4, 1).double()
    zeros = torch.zeros(4, dtype=torch.long)
    reweight = L2R(model, CRITERION, TensorDataset(ones, zeros), 4)
    loss = reweight(model(ones), 1 - zeros, torch.arange(4), inputs=ones)
    loss.backward()
    assert float(loss.detach()) == 0
    assert torch.equal(reweight.weights, torch.zeros(4))
    assert not bool(model.weight.grad.any())


def test_a_nonfinite_loss_keeps_the_proportions_of_the_others() -> None:
    model = build(MODELS["cnn"])
    reweight = make(model)
    x, y = TRAIN_BATCH
    with_nan = x.clone()
    with_nan[0] = float("nan")
    step(reweight, model, (with_nan, y))
    expected = l2r_weights(model, (x[1:], y[1:]), VAL_BATCH)
    torch.testing.assert_close(reweight.weights[1:] / N, expected, rtol=0, atol=1e-10)


def test_the_validation_batches_cycle() -> None:
    """With batches of half the set, the third step uses the same samples as the first."""
    model = build(MODELS["mlp"])
    reweight = L2R(model, CRITERION, TensorDataset(*VAL_BATCH), N, val_batch=VAL // 2).double()
    seen = []
    for _ in range(3):
        step(reweight, model)
        seen.append(reweight.weights.clone())
    assert torch.equal(seen[0], seen[2])
    assert not torch.allclose(seen[0], seen[1])


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_in_training_mode_is_an_error_in_several_processes(training: bool) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)).train(training)
    functional = make(model).functional
    if training:
        with pytest.raises(ValueError, match=r"through the batch norm '1', which PyTorch cannot do over several"):
            functional.refuse_batch_norm()
    else:
        functional.refuse_batch_norm()
