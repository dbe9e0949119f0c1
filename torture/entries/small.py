"""A small network, batch and trusted set, as users may have them: what they raise is not ours."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import TensorDataset

N, CLASSES, TRAIN = 4, 3, 10


def batch() -> dict[str, Any]:
    """A training step's arguments."""
    x = torch.linspace(-1, 1, N * 2).reshape(N, 2)
    targets, index = torch.tensor([0, 1, 2, 0]), torch.tensor([5, 7, 3, 9])
    return {"outputs": network()(x), "targets": targets, "index": index, "inputs": x}


class Network(nn.Linear):
    """The user's own, too."""

    def forward(self, x: Any) -> Any:
        return super().forward(x)


def network() -> nn.Module:
    torch.manual_seed(0)
    return Network(2, CLASSES)


def criterion(outputs: Any, targets: Any) -> Any:
    """The user's own: what it raises is not ours."""
    return nn.functional.cross_entropy(outputs, targets, reduction="none")


def trusted() -> TensorDataset:
    return TensorDataset(torch.linspace(-1, 1, 12).reshape(6, 2), torch.tensor([0, 1, 2, 0, 1, 2]))


def method_arguments() -> dict[str, Any]:
    return {"model": network(), "criterion": criterion, "val_set": trusted(), "num_train": TRAIN}
