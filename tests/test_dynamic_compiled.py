"""The compiled estimation: one graph, and the same weights."""

from __future__ import annotations

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.utils.data import TensorDataset

import adiw
from adiw.divergences import KL, MMD, Divergence, Squared, Wasserstein

NUM_TRAIN = 200


def train(divergence: Divergence, compiled: bool) -> tuple[Tensor, list[Tensor]]:
    random = Generator().manual_seed(0)
    torch.manual_seed(0)
    model = nn.Linear(8, 4)
    trusted = TensorDataset(torch.randn(40, 8, generator=random), torch.randint(4, (40,), generator=random))
    criterion = nn.CrossEntropyLoss(reduction="none")
    reweight = adiw.ADIW(
        model, criterion, trusted, NUM_TRAIN, divergence, warmup_steps=2, cap=9.0, repeats=True, generator=random
    )
    if compiled:
        reweight.compile(backend="aot_eager", fullgraph=True, dynamic=False)
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
    [KL(), KL(width="auto"), MMD(width=1.0), MMD(width=1.0, step="local"), Squared(width=1.0), Wasserstein()],
    ids=str,
)
def test_one_graph_with_the_same_weights(divergence: Divergence) -> None:
    torch.compiler.reset()
    plain, compiled = train(divergence, compiled=False), train(divergence, compiled=True)
    assert not torch.allclose(plain[0], torch.ones(NUM_TRAIN))
    torch.testing.assert_close(compiled, plain)


def test_a_critic_network_stays_as_it_is() -> None:
    divergence = Wasserstein(critic="network", pretrain=1)
    torch.testing.assert_close(train(divergence, compiled=True), train(divergence, compiled=False))
