"""Baselines on a GPU: no host synchronisation in a step, CUDA graphs, and the weights of the CPU."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from adiw import baselines
from tests.baselines.definitions import CRITERION, FALLBACK, Attention, build, images, l2r_weights
from tests.baselines.suite import BATCH, CASES, VAL_SET, Factory, N, X, Y, make, make_model, through_a_file

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
ON_DEVICE = {**CASES, "DIW-quantile": partial(baselines.DIW, width="quantile", warmup_steps=0)}


def batch_on(device: str, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    return X[:BATCH].to(device, dtype), Y[:BATCH].to(device), torch.arange(BATCH, device=device)


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@pytest.mark.parametrize("name", ON_DEVICE)
def test_a_step_does_not_wait_for_the_gpu(name: str) -> None:
    model = make_model(batch_norm=True).cuda()
    reweight = make(ON_DEVICE[name], model)
    x, y, index = batch_on("cuda")
    reweight(model(x), y, index, inputs=x).backward()  # the first step may allocate
    torch.cuda.set_sync_debug_mode("error")
    try:
        reweight(model(x), y, index, inputs=x).backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("name", sorted(ON_DEVICE.keys() - {"Random"}))  # its generator is not registered
def test_a_step_can_be_captured(name: str) -> None:
    model = make_model().cuda()
    reweight, eager = make(ON_DEVICE[name], model), make(ON_DEVICE[name], model)
    x, y, index = batch_on("cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            reweight(model(x), y, index, inputs=x)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = reweight(model(x), y, index, inputs=x)
    graph.replay()
    graph.replay()
    expected = [eager(model(x), y, index, inputs=x) for _ in range(5)][-1]
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(reweight.weights, eager.weights)
    assert reweight.summary().steps == 5


@pytest.mark.parametrize("name", sorted(CASES.keys() - {"Random"}))
def test_weights_are_those_of_the_cpu(name: str) -> None:
    weights = []
    for device in ("cpu", "cuda"):
        model = make_model(batch_norm=True).double().to(device)
        val_set = TensorDataset(VAL_SET.tensors[0].double(), VAL_SET.tensors[1])
        reweight = make(CASES[name], model, val_set=val_set).double()
        x, y, index = batch_on(device, torch.float64)
        for _ in range(3):
            reweight(model(x), y, index, inputs=x)
        weights.append(reweight.weights.cpu())
    torch.testing.assert_close(weights[0], weights[1], rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_bad_indices_are_counted_and_raised_later(name: str) -> None:
    model = make_model().cuda()
    reweight = make(CASES[name], model)
    x, y, index = batch_on("cuda")
    index[3], index[4] = N, -1
    assert bool(reweight(model(x), y, index, inputs=x).isfinite())
    for ask in (reweight.summary, reweight.state_dict):
        with pytest.raises(IndexError, match="2 indices so far were not in the training set"):
            ask()


@pytest.mark.parametrize("factory", [FALLBACK["lstm"], Attention])
def test_recurrent_layers_and_fused_attention(factory: Factory) -> None:
    """cuDNN's LSTM has neither forward mode nor a second derivative, fused attention no forward mode."""
    model = build(factory, torch.float32)
    train, val = images(12, 1, torch.float32), images(8, 2, torch.float32)
    expected = l2r_weights(model, train, val)
    model.cuda()
    reweight = baselines.L2R(model, CRITERION, TensorDataset(*val), 12)
    x, y = train[0].cuda(), train[1].cuda()
    recurrent = factory is not Attention
    with pytest.warns(UserWarning, match="double backward") if recurrent else torch.enable_grad():
        reweight(model(x), y, torch.arange(12).cuda(), inputs=x).backward()
    torch.testing.assert_close(reweight.weights.cpu() / 12, expected, rtol=1e-3, atol=1e-4)


def test_adam_follows_the_network_between_devices() -> None:
    model = make_model()
    reweight = make(CASES["MWNet"], model)
    for device in ("cpu", "cuda", "cpu"):
        model.to(device)
        reweight.to(device)
        x, y, index = batch_on(device)
        reweight(model(x), y, index, inputs=x)
        reweight.load_state_dict(through_a_file(reweight.state_dict()))
        reweight(model(x), y, index, inputs=x)
    assert reweight.summary().steps == 6
