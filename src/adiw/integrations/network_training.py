"""The skorch net of the scikit-learn estimators: trained with weights, with its best epoch kept, resumed exactly."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from skorch import NeuralNet
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

from adiw import ADIW
from adiw.baselines import Uniform
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

    @staticmethod
    def with_index(batch: Any) -> tuple[Tensor, Tensor, Tensor]:
        """(x, target, index), the form of ``adiw.Indexed``."""
        x, (target, index) = batch
        return x, target, index


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
        self, rows: IndexedRows, weighted_loss: WeightedLoss, after_epoch: Callable[[], None] | None
    ) -> None:
        """Train for ``max_epochs`` with this loss."""
        self.weighted_loss_ = lambda *batch: weighted_loss(*batch)
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


Index = NDArray[np.int64]


class Roles(NamedTuple):
    """Which rows are trained on, which are the validation set of ADIW, and which choose the epoch."""

    train: Index
    matched: Index
    held_out: Index


def trusted_mask(trusted: ArrayLike | None, count: int) -> NDArray[np.bool_]:
    """``trusted`` as a boolean array (count,); all false for None."""
    mask = np.zeros(count, bool) if trusted is None else np.asarray(trusted)
    if mask.dtype != bool or mask.shape != (count,):
        raise ValueError(
            f"trusted must be a boolean array ({count},), true for rows with a correct target, "
            f"got {mask.dtype} {mask.shape}"
        )
    return mask


def stack_rows(first: Rows, second: Rows) -> Rows:
    """The rows of both: a CSR matrix if one of them is sparse, otherwise an array."""
    if sparse.issparse(first) or sparse.issparse(second):
        return sparse.vstack([first, second], format="csr")
    return np.concatenate([first, second])


def assign_roles(
    targets: NDArray[np.generic], is_trusted: NDArray[np.bool_], num_held_out: int, join: bool, seed: int
) -> Roles:
    """Hold out trusted samples at equal distances in the order of their targets, so that all classes are present.

    The other trusted samples are matched and, with ``join``, also trained on.

    >>> roles = assign_roles(np.arange(10), np.arange(10) >= 6, num_held_out=2, join=True, seed=0)
    >>> len(roles.train), len(roles.matched), len(roles.held_out)
    (8, 2, 2)
    """
    random, trusted = np.random.default_rng(seed), np.flatnonzero(is_trusted)
    shuffled = random.permutation(trusted)
    ordered = shuffled[np.argsort(targets[shuffled], kind="stable")]
    distance = len(trusted) / max(num_held_out, 1)
    held_out = ordered[((np.arange(num_held_out) + random.random()) * distance).astype(int)]
    train = np.setdiff1d(np.arange(len(targets)), held_out if join else trusted)
    if not len(train):
        raise ValueError("join_trusted=False trains on the rows that are not trusted, but all rows are trusted")
    return Roles(train, np.setdiff1d(trusted, held_out), np.sort(held_out))


WARMUP = 1  # epochs in which all weights are one


@dataclass
class BestEpoch:
    """The network and the weights after the epoch with the best score on held-out samples.

    The warm-up is kept only until another epoch has ended.
    """

    scores: list[float] = field(default_factory=list)
    epoch: int = 0
    network: dict[str, Tensor] = field(default_factory=dict)
    weights: Tensor | None = None

    def update(self, net: ReweightedNet, score: float, weights: Tensor) -> None:
        """Record the score of the last epoch; keep its network and weights if no score after the warm-up is better.

        Few samples give many equal scores. The latest is kept: after more steps a network is better on average.
        """
        score = float("-inf") if math.isnan(score) else score
        net.history.record("valid_score", score)
        if score >= max(self.scores[WARMUP:], default=score):
            self.epoch = len(net.history)
            self.network, self.weights = copy.deepcopy(net.module_.state_dict()), weights
        self.scores.append(score)


@dataclass
class Progress:
    """What a warm start resumes from, besides the skorch net."""

    is_trusted: NDArray[np.bool_]
    targets: NDArray[Any]  # of the network, (n,)
    roles: Roles
    warmup_steps: int | None
    more: Rows | None = None  # trusted rows that are not rows of X, the last ones
    best: BestEpoch = field(default_factory=BestEpoch)
    network: dict[str, Tensor] | None = None  # after the last epoch; the net has that of the best one
    weights: dict[str, Any] | None = None
    random: Tensor | None = None  # the state of torch's generator; None before the first epoch


def train(
    net: ReweightedNet,
    reweight: ADIW | Uniform,
    rows: IndexedRows,
    held_out: Index,
    score: Callable[[Tensor, Tensor], float],
    progress: Progress,
) -> Tensor:
    """Train for the net's ``max_epochs`` and keep the best epoch, or the last one if no row is held out.

    Returns the weight of every row after that epoch. ``progress`` is updated.
    """
    if progress.network is not None:
        net.module_.load_state_dict(progress.network)
    if progress.weights is not None:
        reweight.load_state_dict(progress.weights)
    if progress.random is not None:
        torch.set_rng_state(progress.random)
    best, targets = progress.best, torch.from_numpy(rows.targets[held_out])

    def score_epoch() -> None:
        outputs = net.forward(IndexedRows(rows.x, rows.targets, held_out))
        best.update(net, score(outputs, targets), reweight.weights.to("cpu", copy=True))

    net.train_with(rows, reweight, score_epoch if len(held_out) else None)
    progress.random = torch.get_rng_state()
    progress.weights = reweight.state_dict()
    if best.weights is None:
        return reweight.weights.to("cpu", copy=True)
    progress.network = copy.deepcopy(net.module_.state_dict())
    net.module_.load_state_dict(best.network)
    return best.weights
