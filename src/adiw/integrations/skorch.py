"""The skorch net inside ``ReweightedClassifier``, trained with the weighted loss."""

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

ModuleFactory = Callable[[tuple[int, ...], int], nn.Module]  # (input_shape, num_classes) -> network
SkorchBatch = tuple[Tensor, tuple[Tensor, Tensor]]  # x, (y, index)
WeightedLoss = Callable[[Tensor, Tensor, Tensor], Tensor]


class IndexedRows(Dataset[Any]):
    """Rows in skorch's form (x, y), where y is (label, index); a whole batch is read by one indexing call."""

    def __init__(self, x: Tensor, labels: Tensor) -> None:
        self.x, self.labels = x, labels

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> SkorchBatch:
        return self.x[index], (self.labels[index], torch.tensor(index))

    def __getitems__(self, indices: list[int]) -> SkorchBatch:
        index = torch.tensor(indices)
        return self.x[index], (self.labels[index], index)

    @staticmethod
    def collate(batch: SkorchBatch) -> SkorchBatch:
        """Return what ``__getitems__`` read, which is a batch already."""
        return batch


class ReweightedNet(NeuralNetClassifier):  # type: ignore[misc]
    """skorch's classifier on logits, trained with ``weighted_loss_`` if there is one."""

    weighted_loss_: WeightedLoss | None = None

    def train_with(self, rows: IndexedRows, weighted_loss: WeightedLoss | None) -> None:
        """Train for ``max_epochs`` with this loss; None for the mean of the losses."""
        self.weighted_loss_ = None if weighted_loss is None else lambda *batch: weighted_loss(*batch)
        try:
            self.partial_fit(rows, None)
        finally:
            self.weighted_loss_ = None  # it refers to the trusted samples and cannot be pickled

    def get_loss(self, y_pred: Tensor, y_true: Any, X: Any = None, training: bool = False) -> Tensor:
        """The weighted mean loss of a training batch; without weights the mean."""
        labels, index = (part.to(y_pred.device) for part in y_true)
        if self.weighted_loss_ is None:
            return nn.functional.cross_entropy(y_pred, labels)
        return self.weighted_loss_(y_pred, labels, index)


def build_module(
    module: nn.Module | ModuleFactory | None, input_shape: tuple[int, ...], num_classes: int
) -> nn.Module:
    """The network to train: a copy of ``module``, or what it returns if it is a factory."""
    if isinstance(module, nn.Module):
        return copy.deepcopy(module)
    factory = MLP if module is None else module
    if not callable(factory):
        raise TypeError(f"module must be a network, or callable as module(input_shape, num_classes), got {module!r}")
    return factory(input_shape, num_classes)


def copy_to_tensor(X: NDArray[np.float32]) -> Tensor:
    """A copy, because PyTorch refuses to share the memory of read-only arrays."""
    return torch.from_numpy(np.array(X, dtype=np.float32, order="C"))


@contextmanager
def seeded(seed: int, device: str) -> Iterator[None]:
    """Seed PyTorch's random state, and restore it at the end."""
    try:
        kind = torch.device(device).type
    except (RuntimeError, TypeError) as error:
        raise ValueError(f'device must be one of PyTorch\'s, such as "cpu" or "cuda:0", got {device!r}') from error
    gpus = range(torch.cuda.device_count()) if kind == "cuda" else []
    with torch.random.fork_rng(devices=list(gpus)):
        torch.manual_seed(seed)
        yield
