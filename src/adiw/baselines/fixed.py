"""Fixed weights: known (an oracle), or estimated before training (two-step importance weighting)."""

from __future__ import annotations

from typing import Any

from torch import Generator, Tensor, nn

from adiw.reweighting.model_evaluator import Criterion, Forward, ModelEvaluator, move_to_device_of
from adiw.reweighting.summary import Summary
from adiw.reweighting.transforms import LossValue
from adiw.reweighting.weight_state import WeightState


class Fixed(nn.Module):
    """The loss is mean(w * loss) with weights that never change.

    Args as for ``adiw.ADIW``; ``val_set`` (may be None), ``forward``, ``val_batch`` and ``generator`` are not used.
        weights: (num_train,), finite and not negative.

    >>> import torch
    >>> model = nn.Linear(2, 3)
    >>> clean = torch.tensor([1.0, 0.0, 1.0])
    >>> reweight = Fixed(model, nn.CrossEntropyLoss(reduction="none"), None, num_train=3, weights=1.5 * clean)
    >>> loss = reweight(model(torch.randn(2, 2)), torch.tensor([0, 1]), torch.tensor([2, 1]))
    >>> reweight.weights
    tensor([1.5000, 0.0000, 1.5000])
    """

    def __init__(
        self,
        model: nn.Module,
        criterion: Criterion,
        val_set: Any,
        num_train: int,
        *,
        weights: Tensor,
        forward: Forward | None = None,
        val_batch: int = 256,
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        self.evaluator = ModelEvaluator(model, criterion, forward, LossValue())
        self.weight_state = WeightState(num_train, "Fixed()")
        weights = _check_weights(weights, num_train)
        self.weight_state.weights.copy_(weights)
        move_to_device_of(model, self)

    @property
    def weights(self) -> Tensor:
        """The given weights, (num_train,)."""
        return self.weight_state.weights

    def forward(self, outputs: Any, targets: Any, index: Tensor, inputs: Any = None) -> Tensor:
        """mean(w * loss) of a batch: a scalar, ready for backward."""
        losses = self.evaluator.losses(outputs, targets)
        if not self.training:
            return losses.mean()
        step = self.weight_state.begin_step(index, losses, self)
        return self.weight_state.weighted_mean(step, self.weight_state.read_weights(step), losses, outputs)

    def summary(self) -> Summary:
        """Statistics of the weights; see ``adiw.ADIW.summary``."""
        return self.weight_state.summary()


def _check_weights(weights: Tensor, num_train: int) -> Tensor:
    if not isinstance(weights, Tensor):
        raise TypeError(f"weights must be a tensor ({num_train},), got {type(weights).__name__}")
    weights = weights.detach()
    if weights.is_complex() or weights.shape != (num_train,):
        raise ValueError(
            f"weights must be one number per training sample, ({num_train},), got {tuple(weights.shape)}"
        )
    bad = ~(weights.isfinite() & (weights >= 0))
    if bool(bad.any()):
        at = int(bad.nonzero()[0])
        raise ValueError(f"weights must be finite and not negative, but sample {at} has {float(weights[at])}")
    return weights
