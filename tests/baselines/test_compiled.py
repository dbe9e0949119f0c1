"""Compiled, DIW's solver and the passes of L2R and MW-Net give the same steps."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from adiw.baselines import DIW, L2R, MWNet
from adiw.baselines.qp_solvers import ITERATIONS
from tests.baselines.definitions import CRITERION, FALLBACK, MODELS, build, images
from tests.counting import Counting

VIRTUAL: dict[str, Callable[..., Any]] = {"l2r": L2R, "mw-net": MWNet}
METHODS = {"diw": partial(DIW, width=0.5, warmup_steps=0), **VIRTUAL}
N, VAL, STEPS = 12, 8, 4
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit")  # a warning of PyTorch's compiler at its first import


def train(
    method: str, model: nn.Module, backend: Any = None, whole: Any = None, autocast: bool = False
) -> tuple[Tensor, list[Tensor]]:
    """Weights and parameters after a few steps. ``backend`` compiles the method's passes, ``whole`` the model."""
    torch.compiler.reset()
    model = copy.deepcopy(model)
    if whole is not None:
        model.compile(backend=whole, dynamic=False)
    dtype = next(model.parameters()).dtype
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    options = {"optimizer": optimizer} if method == "mw-net" else {}
    trusted, generator = TensorDataset(*images(VAL, 2, dtype)), torch.Generator().manual_seed(0)
    reweight = METHODS[method](model, CRITERION, trusted, N * STEPS, val_batch=VAL, generator=generator, **options)
    reweight.to(dtype)
    if backend is not None:
        reweight.compile(backend=backend, dynamic=False)
    for k in range(STEPS):
        x, y = images(N, 10 + k, dtype)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            outputs = model(x)
        reweight(outputs, y, torch.arange(N) + N * k, inputs=x).backward()
        optimizer.step()
        optimizer.zero_grad()
    return reweight.weights, [*model.parameters(), *model.buffers()]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("whole", [None, "aot_eager"])
def test_the_same_steps(method: str, whole: str | None) -> None:
    model = build(MODELS["batch_norm"])
    compiled, plain = train(method, model, "aot_eager", whole), train(method, model)
    assert float((plain[0] - 1).abs().max()) > 0.1
    torch.testing.assert_close(compiled, plain, rtol=0, atol=1e-10)


@pytest.mark.parametrize("method", VIRTUAL)
def test_autocast(method: str) -> None:
    """Batch norm has float32 weights, but its tangents must have the half precision of the next layer."""
    model = build(MODELS["batch_norm"], torch.float32)[2:]  # its convolution is not available on every processor
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 64), nn.BatchNorm1d(64), *model[1])
    compiled, plain = train(method, model, "aot_eager", autocast=True), train(method, model, autocast=True)
    torch.testing.assert_close(compiled, plain, rtol=0.02, atol=0.02)


@pytest.mark.parametrize(("method", "passes"), [("l2r", 1), ("mw-net", 2)])
def test_every_pass_is_one_graph(method: str, passes: int) -> None:
    backend = Counting()
    train(method, build(MODELS["batch_norm"]), backend)
    # Gradients are compiled from the first step on, the JVP from the second on: the first step runs it eagerly.
    assert backend.calls == passes * STEPS + STEPS - 1
    assert backend.graphs == passes + 1


def test_an_iteration_of_the_solver_is_one_graph() -> None:
    backend = Counting()
    train("diw", build(MODELS["batch_norm"]), backend)
    assert (backend.graphs, backend.calls) == (1, STEPS * ITERATIONS)


@pytest.mark.parametrize("method", VIRTUAL)
def test_operators_without_forward_mode(method: str) -> None:
    """The derivative is the one that the operator defines, not that of the code of its forward function."""
    backend, model = Counting(), build(FALLBACK["custom"])
    with pytest.warns(UserWarning, match="double backward"):
        compiled = train(method, model, backend)
    with pytest.warns(UserWarning, match="double backward"):
        plain = train(method, model)
    assert backend.graphs > 0
    torch.testing.assert_close(compiled, plain, rtol=0, atol=1e-10)


class Breaking(nn.Module):
    """A layer that breaks the graph of torch.compile."""

    def forward(self, x: Tensor) -> Tensor:
        torch._dynamo.graph_break()
        return x


def test_a_network_in_two_graphs_keeps_its_tangents() -> None:
    model = build(lambda: nn.Sequential(MODELS["cnn"](), Breaking(), nn.Linear(3, 3)))
    plain = train("l2r", model)
    with pytest.warns(UserWarning, match="JVP of the losses cannot be compiled"):
        compiled = train("l2r", model, "aot_eager", "aot_eager")
    torch.testing.assert_close(compiled, plain, rtol=0, atol=1e-10)
