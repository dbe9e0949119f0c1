"""What a task is: where its data come from, how long a network trains on it, and one draw of its samples."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from adiw.engine.preprocessing import NormalizedNetwork
from adiw.models import build

Kind = Literal["image", "table", "text", "regression"]


class MissingError(Exception):
    """Data or a package that a task or a method needs are not on this machine; it is skipped for this reason."""


@dataclass(frozen=True)
class Sources:
    """Folders of data that are not part of the repository."""

    data: Path = Path(os.environ.get("ADIW_DATA") or "data")  # has fashion-mnist/*.gz, confirmation/*
    tables: Path = Path(os.environ.get("ADIW_TABLES") or "../shared/data")  # has adult/*.csv.gz, employment/*.csv.gz

    def file(self, folder: Literal["data", "tables"], name: str) -> Path:
        """The path of a file, or MissingError."""
        path = getattr(self, folder) / name
        if not path.exists():
            raise MissingError(f"{name} is not in the folder of --{folder}")
        return path

    def exported(self, name: str) -> Path:
        """The path of a file of the confirmation half, or MissingError."""
        try:
            return self.file("data", f"confirmation/{name}")
        except MissingError as error:
            raise MissingError(f"{error}: run python -m benchmarks.gauntlet.export_sources {self.data}") from None


@dataclass(frozen=True)
class Pool:
    """Samples with their true targets. ``rows`` (n,) number them in their source."""

    x: NDArray[Any]  # (n, d)
    y: NDArray[Any]  # (n,)
    rows: NDArray[Any]  # (n,)

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, chosen: NDArray[Any]) -> Pool:
        return Pool(self.x[chosen], self.y[chosen], self.rows[chosen])


@dataclass(frozen=True)
class Pools:
    """The three parts of a task's data, which share no row, before anything is corrupted."""

    train: Pool
    trusted: Pool
    test: Pool


def deal(pool: Pool, trusted: int, test: int, rng: np.random.Generator) -> Pools:
    """Deal a pool into test and trusted samples, drawn at random, and the rest for training."""
    order = rng.permutation(len(pool))
    return Pools(pool[order[test + trusted :]], pool[order[test : test + trusted]], pool[order[:test]])


@dataclass(frozen=True)
class Split:
    """One draw of a task: what a method is given, and what it is judged on."""

    x_train: Tensor  # (n, d) float32, or images (n, c, h, w) uint8
    y_train: Tensor  # (n,) as given: int64 labels, or float32 targets of a regression
    truth: Tensor  # (n,) the true labels or targets of the training samples
    x_trusted: Tensor
    y_trusted: Tensor
    x_test: Tensor
    y_test: Tensor
    rows_train: NDArray[Any]
    rows_trusted: NDArray[Any]
    rows_test: NDArray[Any]
    num_classes: int | None  # None for a regression
    unit: float = 1.0  # of a regression's targets: errors times this are in the units of the source
    focus: Tensor | None = None  # (test,) bool: samples whose recall is reported as well

    @property
    def wrong(self) -> Tensor:
        """(n,) which of the given labels or targets are wrong."""
        return self.y_train != self.truth

    def network(self) -> nn.Module:
        """A new network of two hidden layers of 128, with torch's own initialisation."""
        sizes = (self.x_train.shape[1], 128, 128, self.num_classes or 1)
        layers = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())]
        return nn.Sequential(*layers[:-1])


@dataclass(frozen=True)
class ImageSplit(Split):
    """One draw of a whole image set, with a network of adiw's own that scales the stored bytes."""

    model: str = "lenet5"
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    channels_last: bool = False

    def network(self) -> nn.Module:
        """A new network with its own initialisation, on the GPU if there is one."""
        inner = build(self.model, tuple(self.x_train.shape[1:]), self.num_classes or 1)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        return NormalizedNetwork(inner, self.mean, self.std, self.channels_last).to(device)


def inputs(x: NDArray[Any]) -> Tensor:
    """Images as bytes stay bytes; everything else becomes float32."""
    made = torch.as_tensor(x)
    return made if made.dtype == torch.uint8 else made.float()


def make_split(
    pools: Pools, given: NDArray[Any], num_classes: int | None, focus: NDArray[Any] | None = None
) -> Split:
    """Tensors from pools and the given targets of the training samples.

    The targets of a regression are shifted and scaled by the mean and the standard deviation of the trusted ones.
    """
    train, trusted, test = pools.train, pools.trusted, pools.test
    centre, unit = (0.0, 1.0) if num_classes else (float(trusted.y.mean()), float(trusted.y.std()))

    def targets(y: NDArray[Any]) -> Tensor:
        return torch.as_tensor(y, dtype=torch.int64) if num_classes else torch.as_tensor((y - centre) / unit).float()

    return Split(
        x_train=inputs(train.x),
        y_train=targets(given),
        truth=targets(train.y),
        x_trusted=inputs(trusted.x),
        y_trusted=targets(trusted.y),
        x_test=inputs(test.x),
        y_test=targets(test.y),
        rows_train=train.rows,
        rows_trusted=trusted.rows,
        rows_test=test.rows,
        num_classes=num_classes,
        unit=unit,
        focus=None if focus is None else torch.as_tensor(focus),
    )


@dataclass(frozen=True)
class Length:
    """How long every network trains. ``splits`` draws are made for each seed, and their test predictions pooled."""

    steps: int
    batch: int
    splits: int = 1
    rate: float = 1e-3  # of Adam


@dataclass(frozen=True)
class ImageLength(Length):
    """How long, and how, a network trains on a whole image set, by the engine of the command."""

    augment: bool = False  # random crops and flips
    bf16: bool = False  # on a GPU
    weight_decay: float = 0.0


@dataclass(frozen=True)
class Task:
    """A task by name: ``draw(sources, seed)`` gives a split. ``methods``: those that run on it; empty for all."""

    name: str
    kind: Kind
    about: str
    draw: Callable[[Sources, int], Split]
    length: Length
    methods: tuple[str, ...] = ()

    @property
    def metric(self) -> str:
        return "rmse" if self.kind == "regression" else "accuracy"

    def settings(self) -> dict[str, Any]:
        """What a record of this task has to agree on with today's code."""
        return asdict(self.length) | {"about": self.about}

    def splits(self, sources: Sources, seed: int) -> list[Split]:
        """The draws of one seed. A test names any of them by ``seed * 100 + number``."""
        return [self.draw(sources, seed * 100 + number) for number in range(self.length.splits)]
