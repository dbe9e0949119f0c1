"""The skorch net behind ``ReweightedClassifier``: its training loss is the weighted one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from skorch import NeuralNetClassifier
from torch import Tensor, nn
from torch.utils.data import Dataset

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
