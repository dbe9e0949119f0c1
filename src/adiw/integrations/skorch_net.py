"""The skorch net behind ``ReweightedClassifier``: its network, its rows, and the weighted loss that trains it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from skorch import NeuralNetClassifier
from torch import Tensor, nn
from torch.utils.data import Dataset

from adiw.models import MLP

Factory = Callable[[tuple[int, ...], int], nn.Module]
Batch = tuple[Tensor, tuple[Tensor, Tensor]]
WeightedLoss = Callable[[Tensor, Tensor, Tensor], Tensor]


class Numbered(Dataset[Any]):
    """Rows as skorch takes them, (x, y), where y is (label, number of the row); a batch is read in one piece."""

    def __init__(self, x: Tensor, labels: Tensor) -> None:
        self.x, self.labels = x, labels

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, number: int) -> Batch:
        return self.x[number], (self.labels[number], torch.tensor(number))

    def __getitems__(self, numbers: list[int]) -> Batch:
        index = torch.tensor(numbers)
        return self.x[index], (self.labels[index], index)


def whole(batch: Batch) -> Batch:
    """``Numbered`` gives batches: there is nothing left to collate."""
    return batch


class WeightedNet(NeuralNetClassifier):  # type: ignore[misc]
    """skorch's classifier on logits, whose loss is ``weighted_loss_`` while it trains with one."""

    weighted_loss_: WeightedLoss | None = None

    def train_with(self, rows: Numbered, weighted_loss: WeightedLoss | None) -> None:
        """Train for ``max_epochs`` with this loss, or with the plain mean."""
        self.weighted_loss_ = None if weighted_loss is None else lambda *batch: weighted_loss(*batch)
        try:
            self.partial_fit(rows, None)
        finally:
            self.weighted_loss_ = None  # it holds the trusted samples, and cannot be pickled

    def get_loss(self, y_pred: Tensor, y_true: Any, X: Any = None, training: bool = False) -> Tensor:
        """The weighted mean loss of a training batch; without weights the plain mean."""
        labels, index = (part.to(y_pred.device) for part in y_true)
        if self.weighted_loss_ is None:
            return nn.functional.cross_entropy(y_pred, labels)
        return self.weighted_loss_(y_pred, labels, index)


def build_module(module: nn.Module | Factory | None, input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """The network to train: made by a factory, or a copy of the one that was given."""
    if isinstance(module, nn.Module):
        return copy.deepcopy(module)
    factory = MLP if module is None else module
    if not callable(factory):
        raise TypeError(f"module must be a network, or be called as module(input_shape, num_classes), got {module!r}")
    return factory(input_shape, num_classes)


def as_tensor(X: NDArray[np.float32]) -> Tensor:
    """A tensor of its own: arrays of others may be read-only."""
    return torch.from_numpy(np.array(X, dtype=np.float32, order="C"))


@contextmanager
def seeded(seed: int, device: str) -> Iterator[None]:
    """torch's random state from this seed, and afterwards as it was."""
    try:
        kind = torch.device(device).type
    except (RuntimeError, TypeError) as error:
        raise ValueError(f'device must name one of PyTorch\'s, such as "cpu" or "cuda:0", got {device!r}') from error
    gpus = range(torch.cuda.device_count()) if kind == "cuda" else []
    with torch.random.fork_rng(devices=list(gpus)):
        torch.manual_seed(seed)
        yield
