"""The compiled estimation: one graph, and the same weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.utils.data import TensorDataset

import adiw
from adiw.divergences import KL, MMD, Divergence, Squared, Wasserstein
from adiw.matching.kernels import KERNELS
from tests.counting import Counting

NUM_TRAIN = 200


def train(
    divergence: Divergence | None,
    backend: Callable[..., Any] | str | None = None,
    transform: Any = "loss",
    joined: bool = False,
) -> tuple[Tensor, list[Tensor]]:
    random = Generator().manual_seed(0)
    torch.manual_seed(0)
    model = nn.Linear(8, 4)
    trusted: Any = TensorDataset(torch.randn(40, 8, generator=random), torch.randint(4, (40,), generator=random))
    if transform == "loss":  # smaller losses than those of the training samples
        trusted = TensorDataset(trusted.tensors[0], model(trusted.tensors[0]).argmax(1))
    if joined:
        trusted = adiw.Indexed([None] * (NUM_TRAIN - 40), trusted).trusted
    criterion = nn.CrossEntropyLoss(reduction="none")
    settings: dict[str, Any] = {"transform": transform, "warmup_steps": 2, "cap": 9.0, "repeats": True}
    reweight = adiw.ADIW(model, criterion, trusted, NUM_TRAIN, divergence, **settings, generator=random)
    if backend is not None:
        reweight.compile(backend=backend, fullgraph=True, dynamic=False)
    losses = []
    for _ in range(6):
        index = torch.randint(NUM_TRAIN, (32,), generator=random)
        x, y = torch.randn(32, 8, generator=random), torch.randint(4, (32,), generator=random)
        losses.append(reweight(model(x), y, index))
        losses[-1].backward()
    assert reweight.summary().steps == 6
    return reweight.weights.clone(), losses


@pytest.mark.parametrize(
    "divergence",
    [
        KL(width="auto"),
        *(MMD(width=1.0, step="local", kernel=kernel) for kernel in KERNELS),
        MMD(width=1.0),
        Squared(width=1.0),
        *(kind() for kind in adiw.DIVERGENCES.values() if kind not in (MMD, Squared)),
    ],
    ids=str,
)
def test_one_graph_with_the_same_weights(divergence: Divergence) -> None:
    torch.compiler.reset()
    backend = Counting()
    plain, compiled = train(divergence), train(divergence, backend)
    assert backend.graphs in (1, 2)  # the first step has no validation batch yet
    assert backend.calls == 6
    assert not torch.allclose(plain[0], torch.ones(NUM_TRAIN))
    torch.testing.assert_close(compiled, plain)


def test_every_one_of_many_objects_is_compiled() -> None:
    """PyTorch compiles a function at most eight times; with ``fullgraph`` a ninth object of the same code raises."""
    torch.compiler.reset()
    for _ in range(10):
        backend = Counting()
        train(KL(), backend)
        assert backend.graphs in (1, 2)


@pytest.mark.parametrize(
    "divergence",
    [
        MMD(width="auto", step="local"),
        Squared(width="auto"),
        *(kind() for kind in adiw.DIVERGENCES.values() if kind is not Wasserstein),
    ],
    ids=str,
)
def test_classwise_features(divergence: Divergence) -> None:
    """With the backend "aot_eager", which does not accept all in-place operations."""
    torch.compiler.reset()
    plain = train(divergence, None, adiw.Features("", num_classes=4))
    compiled = train(divergence, "aot_eager", adiw.Features("", num_classes=4))
    assert not torch.allclose(plain[0], torch.ones(NUM_TRAIN))
    torch.testing.assert_close(compiled, plain)


@pytest.mark.parametrize("joined", [False, True])
def test_the_default(joined: bool) -> None:
    torch.compiler.reset()
    backend = Counting()
    plain, compiled = train(None, joined=joined), train(None, backend, joined=joined)
    assert (backend.graphs, backend.calls) == (2, 6)  # in the warm-up, after it
    assert not torch.allclose(plain[0], torch.ones(NUM_TRAIN))
    torch.testing.assert_close(compiled, plain)


def test_a_critic_network_is_not_compiled() -> None:
    backend, divergence = Counting(), Wasserstein(critic="network", pretrain=1)
    torch.testing.assert_close(train(divergence, backend), train(divergence))
    assert backend.graphs == 0
