"""Uniform weights: training as usual."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor, nn

from adiw.health import Summary
from adiw.ledger import Ledger
from adiw.observer import Criterion, Forward, Observer, follow
from adiw.transforms import LossValue


class Uniform(nn.Module):
    """Every weight is one; the loss is mean(loss).

    Args as for ``adiw.ADIW``; ``val_set`` (may be None), ``forward``, ``val_batch`` and ``generator`` are not used.

    >>> model = nn.Linear(2, 3)
    >>> reweight = Uniform(model, nn.CrossEntropyLoss(reduction="none"), None, num_train=100)
    >>> x, y, index = torch.randn(4, 2), torch.tensor([0, 1, 2, 0]), torch.tensor([5, 17, 3, 99])
    >>> torch.allclose(reweight(model(x), y, index), nn.functional.cross_entropy(model(x), y))
    True
    """

    def __init__(
        self,
        model: nn.Module,
        criterion: Criterion,
        val_set: Any,
        num_train: int,
        *,
        forward: Forward | None = None,
        val_batch: int = 256,
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        self.observer = Observer(model, criterion, forward, LossValue())
        self.ledger = Ledger(num_train, "Uniform()")
        follow(self, model)

    @property
    def weights(self) -> Tensor:
        """Ones, (num_train,)."""
        return self.ledger.weights

    def forward(self, outputs: Any, targets: Any, index: Tensor, inputs: Any = None) -> Tensor:
        """mean(loss) of a batch: a scalar, ready for backward."""
        losses = self.observer.losses(outputs, targets)
        if not self.training:
            return losses.mean()
        step = self.ledger.enter(index, losses)
        return self.ledger.weighted_mean(step, torch.ones_like(losses), losses, outputs)

    def summary(self) -> Summary:
        """Health of the weights; see ``adiw.ADIW.summary``."""
        return self.ledger.summary()
