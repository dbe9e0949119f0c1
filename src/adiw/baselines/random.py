"""Random weights: weighting without information, as a control."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor, nn

from adiw.matching.weight_limits import rescale_to_mean_one
from adiw.reweighting.model_evaluator import Criterion, Forward, ModelEvaluator, move_to_device_of
from adiw.reweighting.resumable_generator import ResumableGenerator
from adiw.reweighting.summary import Summary
from adiw.reweighting.transforms import LossValue
from adiw.reweighting.weight_state import WeightState


class Random(nn.Module):
    """w = max(0, g) / mean(max(0, g)) with fresh g ~ N(0, 1) for each batch (rectified Gaussian).

    Args as for ``adiw.ADIW``; ``val_set`` (may be None), ``forward`` and ``val_batch`` are not used.
        generator: the randomness of the weights, part of the state.

    >>> model = nn.Linear(2, 3)
    >>> reweight = Random(model, nn.CrossEntropyLoss(reduction="none"), None, num_train=4)
    >>> loss = reweight(model(torch.randn(4, 2)), torch.tensor([0, 1, 2, 0]), torch.arange(4))
    >>> round(float(reweight.weights.mean()), 4)
    1.0
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
        self.randomness = ResumableGenerator(generator)
        self.weight_state = WeightState(num_train, "Random()")
        move_to_device_of(model, self)

    @property
    def weights(self) -> Tensor:
        """The last weight of every training sample, (num_train,)."""
        return self.weight_state.weights

    def forward(self, outputs: Any, targets: Any, index: Tensor, inputs: Any = None) -> Tensor:
        """mean(w * loss) of a batch: a scalar, ready for backward."""
        losses = self.evaluator.losses(outputs, targets)
        if not self.training:
            return losses.mean()
        step = self.weight_state.begin_step(index, losses, self)
        weights = rectified_gaussian(len(step.index), losses, self.randomness.on(losses.device), step.is_sample)
        weights = self.weight_state.store(step, weights, step.finite)
        return self.weight_state.weighted_mean(step, weights, losses, outputs)

    def summary(self) -> Summary:
        """Statistics of the weights; see ``adiw.ADIW.summary``."""
        return self.weight_state.summary()

    def get_extra_state(self) -> dict[str, Any]:
        return {"randomness": self.randomness.state()}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.randomness.restore(state["randomness"], self.weight_state.seen_steps.device)


def rectified_gaussian(size: int, like: Tensor, generator: Generator, is_sample: Tensor | None = None) -> Tensor:
    """max(0, g) / mean(max(0, g)) for g ~ N(0, 1), (size,); ones if no draw is positive.

    The mean is over the rows where ``is_sample`` (size,) is true, by default all.

    >>> rectified_gaussian(3, torch.zeros(()), Generator().manual_seed(0))
    tensor([3., 0., 0.])
    """
    drawn = torch.randn(size, generator=generator, dtype=like.dtype, device=like.device).clamp_min(0)
    drawn = drawn if is_sample is None else torch.where(is_sample, drawn, 0)
    return torch.where(drawn.sum() > 0, rescale_to_mean_one(drawn, float("inf"), is_sample), 1)
