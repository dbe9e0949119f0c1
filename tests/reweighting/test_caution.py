"""Caution: a step on a divergence counts only as far as trusted losses are smaller than those of the batch."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from adiw import ADIW, DIVERGENCES

SMALL, LARGE = torch.linspace(0, 1, 40), torch.linspace(1.5, 2.5, 40)


class Losses(nn.Module):
    """The input is the loss of each sample."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


def weights(name: str, train: Tensor, trusted: Tensor, cautious: bool) -> Tensor:
    """The weights after one step on these losses."""
    torch.manual_seed(0)
    model, val_set = Losses(), TensorDataset(trusted, torch.zeros(len(trusted)))
    reweight = ADIW(model, lambda outputs, _: outputs, val_set, len(train), name, warmup_steps=0, cautious=cautious)
    reweight(model(train), torch.zeros(len(train)), torch.arange(len(train))).backward()
    return reweight.weights.clone()


@pytest.mark.parametrize("name", DIVERGENCES)
def test_weights_stay_where_trusted_losses_are_larger(name: str) -> None:
    train = torch.cat([SMALL, LARGE])
    assert torch.equal(weights(name, train, LARGE, cautious=True), torch.ones(80))
    assert not torch.equal(weights(name, train, LARGE, cautious=False), torch.ones(80))


@pytest.mark.parametrize("name", DIVERGENCES)
def test_a_step_counts_in_full_where_trusted_losses_are_clearly_smaller(name: str) -> None:
    train = torch.cat([SMALL, LARGE])
    found = weights(name, train, SMALL, cautious=True)
    assert not torch.equal(found, torch.ones(80))
    torch.testing.assert_close(found, weights(name, train, SMALL, cautious=False), rtol=0, atol=0)
