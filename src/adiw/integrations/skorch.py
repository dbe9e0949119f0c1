"""The skorch net inside ``ReweightedClassifier`` and ``ReweightedRegressor``, trained with the weighted loss."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from skorch import NeuralNet
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

from adiw.models import MLP

ModuleFactory = Callable[[tuple[int, ...], int], nn.Module]  # (input_shape, num_outputs) -> network
Criterion = Callable[[Tensor, Tensor], Tensor]  # (outputs, targets) -> one loss per sample, (n,)
SkorchBatch = tuple[Tensor, tuple[Tensor, Tensor]]  # x, (y, index)
WeightedLoss = Callable[[Tensor, Tensor, Tensor], Tensor]
Rows = Any  # an array (n, ...) or a CSR matrix (n, d), float32


class IndexedRows(Dataset[Any]):
    """The rows at ``index`` in skorch's form (x, y), where y is (target, index).

    A whole batch is read by one indexing call, and sparse rows become dense there. ``drawn`` of the rows are the
    samples of a training epoch.
    """

    def __init__(
        self, x: Rows, targets: NDArray[Any], index: NDArray[np.int64] | None = None, drawn: int | None = None
    ) -> None:
        self.x, self.targets, self.drawn = x, targets, drawn
        self.index = np.arange(x.shape[0]) if index is None else index

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, position: int) -> SkorchBatch:
        x, (target, index) = self.__getitems__([position])
        return x[0], (target[0], index[0])

    def __getitems__(self, positions: list[int]) -> SkorchBatch:
        index = self.index[positions]
        return dense(self.x, index), (torch.from_numpy(self.targets[index]), torch.from_numpy(index))

    @staticmethod
    def collate(batch: Any) -> SkorchBatch:
        """Return what ``__getitems__`` read, which is a batch already."""
        read: SkorchBatch = batch
        return read


def dense(x: Rows, index: NDArray[np.int64]) -> Tensor:
    """A copy of the rows at ``index`` as a tensor."""
    rows = x[index]
    return torch.from_numpy(rows.toarray() if sparse.issparse(rows) else rows)


class PerSample(nn.Module):
    """A criterion for outputs (n, C), or for the single output (n, 1) of a regression without its last dimension."""

    def __init__(self, criterion: Criterion, squeeze: bool) -> None:
        super().__init__()
        self.criterion, self.squeeze = criterion, squeeze

    def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.criterion(outputs.squeeze(1) if self.squeeze else outputs, targets)


class ReweightedNet(NeuralNet):  # type: ignore[misc]
    """A skorch net that trains with ``weighted_loss_`` if there is one, and calls ``after_epoch_``."""

    weighted_loss_: WeightedLoss | None = None
    after_epoch_: Callable[[], None] | None = None

    def train_with(
        self, rows: IndexedRows, weighted_loss: WeightedLoss | None, after_epoch: Callable[[], None] | None
    ) -> None:
        """Train for ``max_epochs`` with this loss; None for the mean of the losses."""
        self.weighted_loss_ = None if weighted_loss is None else lambda *batch: weighted_loss(*batch)
        self.after_epoch_ = after_epoch
        try:
            self.partial_fit(rows, None)
        finally:
            self.weighted_loss_ = self.after_epoch_ = None  # they refer to samples and cannot be pickled

    def get_iterator(self, dataset: Any, training: bool = False) -> Any:
        """Batches of the rows: in random order for training, otherwise in their own."""
        if not isinstance(dataset, IndexedRows):  # users may call net_ with any input that skorch takes
            return super().get_iterator(dataset, training)
        sampler = RandomSampler(dataset, num_samples=dataset.drawn) if training else None
        return DataLoader(dataset, self.batch_size, sampler=sampler, collate_fn=IndexedRows.collate)

    def get_loss(self, y_pred: Tensor, y_true: Any, X: Any = None, training: bool = False) -> Tensor:
        """The weighted mean loss of a training batch; without weights the mean."""
        targets, index = (part.to(y_pred.device) for part in y_true)
        if self.weighted_loss_ is None:
            mean: Tensor = self.criterion_(y_pred, targets).mean()
            return mean
        return self.weighted_loss_(y_pred, targets, index)

    def on_epoch_end(self, net: Any, *args: Any, **kwargs: Any) -> None:
        """Score the epoch before the callbacks run, so that they can read and print the score."""
        if self.after_epoch_ is not None:
            self.after_epoch_()


def build_module(
    module: nn.Module | ModuleFactory | None, input_shape: tuple[int, ...], num_outputs: int
) -> nn.Module:
    """The network to train: a copy of ``module``, or what it returns if it is a factory."""
    if isinstance(module, nn.Module):
        return copy.deepcopy(module)
    factory = MLP if module is None else module
    if not callable(factory):
        raise TypeError(f"module must be a network, or callable as module(input_shape, num_outputs), got {module!r}")
    return factory(input_shape, num_outputs)


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
