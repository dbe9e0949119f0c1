"""Uniform weights: training without weighting."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor, nn

from adiw.reweighting.model_evaluator import Criterion, Forward, ModelEvaluator, move_to_device_of
from adiw.reweighting.summary import Summary
from adiw.reweighting.transforms import LossValue
from adiw.reweighting.weight_state import WeightState


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
        self.evaluator = ModelEvaluator(model, criterion, forward, LossValue())
        self.weight_state = WeightState(num_train, "Uniform()")
        move_to_device_of(model, self)

    @property
    def weights(self) -> Tensor:
        """Ones, (num_train,)."""
        return self.weight_state.weights

    def forward(self, outputs: Any, targets: Any, index: Tensor, inputs: Any = None) -> Tensor:
        """mean(loss) of a batch: a scalar, ready for backward."""
        losses = self.evaluator.losses(outputs, targets)
        if not self.training:
            return losses.mean()
        step = self.weight_state.begin_step(index, losses, self)
        weights = torch.ones_like(step.index, dtype=losses.dtype)
        return self.weight_state.weighted_mean(step, weights, losses, outputs)

    def summary(self) -> Summary:
        """Statistics of the weights; see ``adiw.ADIW.summary``."""
        return self.weight_state.summary()
