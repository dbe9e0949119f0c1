"""Train a skorch net with weights, keep its best epoch, and resume a training exactly."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adiw import ADIW
from adiw.integrations.skorch import IndexedRows, ReweightedNet, Rows
from adiw.integrations.trusted_rows import Index, Roles

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
    reweight: ADIW | None,
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
    if reweight is not None and progress.weights is not None:
        reweight.load_state_dict(progress.weights)
    if progress.random is not None:
        torch.set_rng_state(progress.random)
    best, targets = progress.best, torch.from_numpy(rows.targets[held_out])

    def score_epoch() -> None:
        outputs = net.forward(IndexedRows(rows.x, rows.targets, held_out))
        best.update(net, score(outputs, targets), _weights(reweight, rows))

    net.train_with(rows, reweight, score_epoch if len(held_out) else None)
    progress.random = torch.get_rng_state()
    progress.weights = None if reweight is None else reweight.state_dict()
    if best.weights is None:
        return _weights(reweight, rows)
    progress.network = copy.deepcopy(net.module_.state_dict())
    net.module_.load_state_dict(best.network)
    return best.weights


def _weights(reweight: ADIW | None, rows: IndexedRows) -> Tensor:
    """A copy of the last weight of every row, on the CPU."""
    return torch.ones(len(rows.targets)) if reweight is None else reweight.weights.cpu().clone()
