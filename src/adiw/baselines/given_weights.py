"""Baselines without a validation set: uniform weights, random weights, and weights that are given."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor, nn

from adiw.baselines.baseline import Baseline
from adiw.matching.weight_limits import rescale_to_mean_one
from adiw.reweighting.extra_state import from_one_value, one_value
from adiw.reweighting.loss_shapes import Criterion
from adiw.reweighting.step import Step


class Uniform(Baseline):
    """Every weight is one; the loss is mean(loss).

    Args as for ``adiw.ADIW``; ``val_set`` (may be None) is not used.

    >>> model = nn.Linear(2, 3)
    >>> reweight = Uniform(model, nn.CrossEntropyLoss(reduction="none"), None, num_train=100)
    >>> x, y, index = torch.randn(4, 2), torch.tensor([0, 1, 2, 0]), torch.tensor([5, 17, 3, 99])
    >>> torch.allclose(reweight(model(x), y, index), nn.functional.cross_entropy(model(x), y))
    True
    """

    def __init__(self, model: nn.Module, criterion: Criterion, val_set: Any, num_train: int, **options: Any) -> None:
        super().__init__(model, criterion, None, num_train, **options)

    def _batch_weights(self, step: Step, losses: Tensor, outputs: Any, batch: Any) -> Tensor:
        return torch.ones_like(step.index, dtype=losses.dtype)


class Random(Uniform):
    """w = max(0, g) / mean(max(0, g)) with fresh g ~ N(0, 1) for each batch (rectified Gaussian), as a control.

    Args as for ``Uniform``.
        generator: the randomness of the weights, part of the state.

    >>> model = nn.Linear(2, 3)
    >>> reweight = Random(model, nn.CrossEntropyLoss(reduction="none"), None, num_train=4)
    >>> loss = reweight(model(torch.randn(4, 2)), torch.tensor([0, 1, 2, 0]), torch.arange(4))
    >>> round(float(reweight.weights.mean()), 4)
    1.0
    """

    def _batch_weights(self, step: Step, losses: Tensor, outputs: Any, batch: Any) -> Tensor:
        weights = rectified_gaussian(len(step.index), losses, self.randomness.on(losses.device), step.is_sample)
        return self.weight_state.store(step, weights, step.finite)

    def get_extra_state(self) -> tuple[dict[str, Any]]:
        return one_value({"randomness": self.randomness.state()})

    def set_extra_state(self, state: Any) -> None:
        state = from_one_value(state)
        self.randomness.restore(state["randomness"], self.weight_state.seen_steps.device)


def rectified_gaussian(size: int, like: Tensor, generator: Generator, is_sample: Tensor | None = None) -> Tensor:
    """max(0, g) / mean(max(0, g)) for g ~ N(0, 1), (size,); ones if no draw is positive.

    The mean is over the rows where ``is_sample`` (size,) is true, by default all.
    """
    drawn = torch.randn(size, generator=generator, dtype=like.dtype, device=like.device).clamp_min(0)
    drawn = drawn if is_sample is None else torch.where(is_sample, drawn, 0)
    return torch.where(drawn.sum() > 0, rescale_to_mean_one(drawn, float("inf"), is_sample), 1)


class Fixed(Uniform):
    """Weights that never change: known (an oracle), or estimated before training (two-step importance weighting).

    Args as for ``Uniform``.
        weights: (num_train,), finite and not negative.

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
        **options: Any,
    ) -> None:
        super().__init__(model, criterion, val_set, num_train, **options)
        self.weight_state.weights.copy_(_check_weights(weights, num_train))

    def _batch_weights(self, step: Step, losses: Tensor, outputs: Any, batch: Any) -> Tensor:
        return self.weight_state.read_weights(step)


def _check_weights(weights: Tensor, num_train: int) -> Tensor:
    if not isinstance(weights, Tensor) or weights.is_complex() or weights.shape != (num_train,):
        found = tuple(weights.shape) if isinstance(weights, Tensor) else type(weights).__name__
        raise ValueError(f"weights must be one number per training sample, ({num_train},), got {found}")
    weights = weights.detach()
    bad = ~(weights.isfinite() & (weights >= 0))
    if bool(bad.any()):
        at = int(bad.nonzero()[0])
        raise ValueError(f"weights must be finite and not negative, but sample {at} has {float(weights[at])}")
    return weights
