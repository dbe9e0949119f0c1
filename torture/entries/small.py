"""A small network, batch and validation set of a user. Errors that they raise are the user's own."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import TensorDataset

N, CLASSES, TRAIN = 4, 3, 10


def batch() -> dict[str, Any]:
    """The arguments of a training step."""
    x = torch.linspace(-1, 1, N * 2).reshape(N, 2)
    targets, index = torch.tensor([0, 1, 2, 0]), torch.tensor([5, 7, 3, 9])
    return {"outputs": network()(x), "targets": targets, "index": index, "inputs": x}


class Network(nn.Linear):
    """The user's network; its errors are the user's own."""

    def forward(self, x: Any) -> Any:
        return super().forward(x)


def network() -> nn.Module:
    torch.manual_seed(0)
    return Network(2, CLASSES)


def criterion(outputs: Any, targets: Any) -> Any:
    """The user's criterion; its errors are the user's own."""
    return nn.functional.cross_entropy(outputs, targets, reduction="none")


def trusted() -> TensorDataset:
    return TensorDataset(torch.linspace(-1, 1, 12).reshape(6, 2), torch.tensor([0, 1, 2, 0, 1, 2]))


def method_arguments() -> dict[str, Any]:
    return {"model": network(), "criterion": criterion, "val_set": trusted(), "num_train": TRAIN}
