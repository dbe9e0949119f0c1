"""Random weights: what weighting does when the weights know nothing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor, nn

from adiw.health import Summary
from adiw.ledger import Ledger
from adiw.limits import rescale_to_mean_one
from adiw.observer import Criterion, Forward, Observer, follow
from adiw.randomness import Randomness
from adiw.transforms import LossValue


class Random(nn.Module):
    """w = max(0, g) / mean(max(0, g)) with fresh g ~ N(0, 1) for each batch (rectified Gaussian).

    Args as for ``adiw.ADIW``; ``val_set`` (may be None), ``forward`` and ``val_batch`` are not used.
        generator: of the draws, part of the state.

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
        self.observer = Observer(model, criterion, forward, LossValue())
        self.randomness = Randomness(generator)
        self.ledger = Ledger(num_train, "Random()")
        follow(self, model)

    @property
    def weights(self) -> Tensor:
        """The last weight of every training sample, (num_train,)."""
        return self.ledger.weights

    def forward(self, outputs: Any, targets: Any, index: Tensor, inputs: Any = None) -> Tensor:
        """mean(w * loss) of a batch: a scalar, ready for backward."""
        losses = self.observer.losses(outputs, targets)
        if not self.training:
            return losses.mean()
        step = self.ledger.enter(index, losses)
        if step.first:
            self.ledger.team.share_state(self)
        weights = rectified_gaussian(len(step.everyone), losses, self.randomness.on(losses.device), step.present)
        self.ledger.keep(step, weights)
        return self.ledger.weighted_mean(step, self.ledger.team.own(weights, len(losses)), losses, outputs)

    def summary(self) -> Summary:
        """Health of the weights; see ``adiw.ADIW.summary``."""
        return self.ledger.summary()

    def get_extra_state(self) -> dict[str, Any]:
        return {"randomness": self.randomness.state()}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.randomness.restore(state["randomness"], self.ledger.seen_steps.device)


def rectified_gaussian(size: int, like: Tensor, generator: Generator, present: Tensor | None = None) -> Tensor:
    """(size,) of max(0, g) / mean(max(0, g)), g ~ N(0, 1); ones where no draw is positive.

    The mean is over the samples that are ``present`` (size,), by default all.

    >>> rectified_gaussian(3, torch.zeros(()), Generator().manual_seed(0))
    tensor([3., 0., 0.])
    """
    drawn = torch.randn(size, generator=generator, dtype=like.dtype, device=like.device).clamp_min(0)
    drawn = drawn if present is None else torch.where(present, drawn, 0)
    return torch.where(drawn.sum() > 0, rescale_to_mean_one(drawn, float("inf"), present), 1)
