"""Evaluating the validation samples before the training pass gives the same weights as evaluating in the step."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.utils.data import TensorDataset

from adiw import ADIW, Features


def weights(ahead: bool, bf16: bool, **settings: Any) -> tuple[Tensor, Tensor]:
    """After seven steps: the weights, and the z of the trusted samples."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4))
    val_set = TensorDataset(torch.randn(9, 3), torch.arange(9) % 4)
    criterion, generator = nn.CrossEntropyLoss(reduction="none"), Generator().manual_seed(0)
    settings = {"warmup_steps": 0, "val_batch": 6, "generator": generator, **settings}
    reweight = ADIW(model, criterion, val_set, 20, **settings)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(7):
        x, y, index = torch.randn(8, 3), torch.randint(4, (8,)), torch.randperm(20)[:8]
        with torch.autocast("cpu", torch.bfloat16) if bf16 else nullcontext():
            if ahead:
                reweight.refresh_validation()
            outputs = model(x)
        reweight(outputs, y, index, inputs=x).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert reweight.val_schedule.z is not None
    return reweight.weights, reweight.val_schedule.z


@pytest.mark.parametrize("bf16", [False, True], ids=["full precision", "bf16"])
@pytest.mark.parametrize(
    "settings", [{}, {"val_every": 1}, {"val_refresh": 2, "val_every": 3}, {"exact": True}], ids=str
)
def test_losses(settings: dict[str, Any], bf16: bool) -> None:
    for mine, theirs in zip(weights(True, bf16, **settings), weights(False, bf16, **settings), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0, equal_nan=True)


def test_features() -> None:
    settings = {"transform": Features("1", class_prior=torch.ones(4))}
    mine, z = weights(True, False, **settings)
    theirs, other = weights(False, False, **settings)
    assert torch.equal(mine, theirs)
    assert torch.equal(z, other)
    assert not torch.equal(mine, torch.ones(20))
