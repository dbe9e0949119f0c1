"""A small network with batch norm and data for it, for the tests of the loop and of evaluation."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn


def problem(classes: int = 7, n: int = 60) -> tuple[nn.Module, Tensor, Tensor]:
    """(model, x, y)."""
    random = Generator().manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, classes))
    for parameter in model.parameters():
        nn.init.normal_(parameter, generator=random)
    return model, torch.randn(n, 4, generator=random), torch.randint(classes, (n,), generator=random)


def same(first: nn.Module, second: nn.Module) -> bool:
    """Whether two models have equal parameters and buffers."""
    pairs = zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)
