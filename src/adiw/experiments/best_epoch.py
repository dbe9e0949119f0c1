"""The best epoch of a run on its held-out trusted samples, with the network after it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from adiw.experiments.checked_io import Row

FIGURES = ("epoch", "accuracy", "top5", "held_out_accuracy", "held_out_loss")


class BestEpoch:
    """The metrics of the best epoch so far, and a copy of the network; empty if no sample is held out.

    An epoch of the warm-up, the first ``warmup`` ones, is kept only until another has ended.
    """

    def __init__(self, warmup: int = 0) -> None:
        self.warmup = warmup
        self.row: Row | None = None
        self.model: dict[str, Tensor] = {}

    def update(self, row: Row, model: nn.Module) -> None:
        """Keep the network if ``row``, the metrics of the epoch that has just ended, is the best so far."""
        if "held_out_accuracy" in row and (self.row is None or self._replaces(row, self.row)):
            self.row = row
            self.model = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}

    def _replaces(self, row: Row, kept: Row) -> bool:
        return kept["epoch"] <= self.warmup < row["epoch"] or score(row) > score(kept)

    @contextmanager
    def loaded(self, model: nn.Module) -> Iterator[None]:
        """Within this context ``model`` is the network after the best epoch; without a best epoch it is the last."""
        last = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
        model.load_state_dict(self.model or last)
        try:
            yield
        finally:
            model.load_state_dict(last)

    def record(self, metrics: list[Row]) -> dict[str, Any]:
        """The entries of result.json: the figures of the best epoch, which are those of the run, and of the last."""
        if self.row is None:
            return {}
        best, last = ({name: row[name] for name in FIGURES} for row in (self.row, metrics[-1]))
        best["why"] = f"highest held-out accuracy of epochs {min(self.warmup + 1, len(metrics))} to {len(metrics)}"
        return {"accuracy": best["accuracy"], "accuracy_std": None, "top5": best["top5"], "best": best, "last": last}

    def state(self) -> dict[str, Any] | None:
        return None if self.row is None else {"row": self.row, "model": self.model}

    def restore(self, state: dict[str, Any] | None) -> None:
        if state is not None:
            self.row, self.model = state["row"], state["model"]


def score(row: Row) -> tuple[float, float]:
    """Epochs in their order: the accuracy on the held-out samples, and the lower loss where it is the same."""
    loss = row["held_out_loss"]
    return row["held_out_accuracy"], -loss if math.isfinite(loss) else -math.inf


def right_in_other_parts(right: Tensor, part: Tensor | None = None, warmup: int = 0) -> Tensor:
    """(m,) which held-out samples are predicted correctly, each by an epoch that was chosen without it.

    ``right`` (epochs, m) are the correct predictions after each epoch. The accuracy of the best epoch is too high on
    the samples by which it was chosen. The samples are therefore divided into parts, (m,) numbers from 0, by default
    two halves, and each part is evaluated after the epoch that is the best on the other parts. Of equal epochs, the
    one whose neighbours are best is taken. The first ``warmup`` epochs are left out if there are others.

    >>> right_in_other_parts(torch.tensor([[1, 1, 0, 0], [1, 0, 1, 1]], dtype=torch.bool))
    tensor([ True, False, False,  True])
    """
    right = right[min(warmup, len(right) - 1) :]
    part = torch.arange(right.shape[1]) % 2 if part is None else part
    found = torch.zeros(right.shape[1], dtype=torch.bool)
    for number in part.unique().tolist():
        own = part == number
        means = right[:, ~own if bool((~own).any()) else own].double().mean(1)
        padded = torch.cat([means[:1], means, means[-1:]])
        epoch = int((means + 1e-6 * (padded[:-2] + padded[2:])).argmax())
        found[own] = right[epoch, own]
    return found
