"""The data of the examples: handwritten digits with 40% wrong training labels."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import TensorDataset

from adiw.data import load
from adiw.shifts import Symmetric


def noisy_digits() -> tuple[TensorDataset, TensorDataset, TensorDataset]:
    """(training set with 40% wrong labels, 100 trusted samples, test set)."""
    data = load("digits")
    x, y = data.train.x, data.train.y
    shifted = Symmetric(0.4).apply(x, y, 10, 100, torch.Generator().manual_seed(0))
    trusted = shifted.trusted
    return TensorDataset(x, shifted.y), TensorDataset(x[trusted], y[trusted]), TensorDataset(data.test.x, data.test.y)


def accuracy(model: nn.Module, test_set: TensorDataset) -> float:
    """Accuracy on the test set in percent."""
    x, y = test_set.tensors
    model.eval()
    with torch.no_grad():
        return 100 * float((model(x).argmax(1) == y).double().mean())
