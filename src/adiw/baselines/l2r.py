"""Learning to reweight (L2R): weights from how each sample's gradient agrees with the validation gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor, nn

from adiw.baselines.virtual import Virtual
from adiw.matching.limits import rescale_to_mean_one
from adiw.reweighting.dataset_cache import CACHE_BYTES
from adiw.reweighting.model_evaluator import Criterion, Forward, follow
from adiw.reweighting.resumable_generator import ResumableGenerator
from adiw.reweighting.summary import Summary
from adiw.reweighting.validation_stream import ValidationStream
from adiw.reweighting.weight_state import WeightState


class L2R(nn.Module):
    """w_i = max(0, -d L_val(theta - alpha sum_j eps_j grad loss_j) / d eps_i) at eps = 0   (Ren et al. 2018).

    The weights of a batch are then scaled to sum one, or stay zero. The derivative is
    alpha <grad L_val(theta), grad loss_i(theta)>, and alpha cancels: one validation gradient and one forward-mode
    pass over the training batch give the weights exactly, with no second-order graph. Operators without forward mode
    fall back to double backward, with one warning.

    The loss is sum(w * loss), zero where no sample agrees with the validation gradient. ``weights`` holds n * w, so
    that the loss is mean(weights * loss) as for every other method. Both passes run in the mode that the model is in
    (training mode while it trains) and leave its buffers untouched; see ``Virtual``.

    Args as for ``adiw.ADIW``. Every call needs ``inputs`` (with ``forward``, the whole batch).

    >>> model = nn.Linear(2, 3)
    >>> val_set = torch.utils.data.TensorDataset(torch.randn(8, 2), torch.randint(3, (8,)))
    >>> reweight = L2R(model, nn.CrossEntropyLoss(reduction="none"), val_set, num_train=100)
    >>> x, y, index = torch.randn(4, 2), torch.tensor([0, 1, 2, 0]), torch.tensor([5, 17, 3, 99])
    >>> reweight(model(x), y, index, inputs=x).backward()
    >>> bool((reweight.weights >= 0).all())
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
        cache_bytes: int = CACHE_BYTES,
        val_workers: int = 0,
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        self.virtual = Virtual(model, criterion, forward)
        order = ResumableGenerator(generator).on_host()
        self.val_stream = ValidationStream(val_set, val_batch, None, order, cache_bytes, val_workers)
        self.weight_state = WeightState(num_train, "L2R()")
        self.val_stream.processes = self.weight_state.processes
        follow(self, model)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Let torch.compile, with these arguments, translate the virtual passes; see ``Virtual.compile``."""
        self.virtual.compile(*args, **kwargs)

    @property
    def weights(self) -> Tensor:
        """The last weight of every training sample, (num_train,), in the unit of mean(weights * loss)."""
        return self.weight_state.weights

    def forward(self, outputs: Any, targets: Any, index: Tensor, inputs: Any = None) -> Tensor:
        """sum(w * loss) of a batch: a scalar, ready for backward."""
        evaluator = self.virtual.evaluator
        losses = evaluator.losses(outputs, targets)
        if not self.training:
            return losses.mean()
        batch = evaluator.training_batch(inputs, targets, "L2R differentiates the losses of the training batch")
        step, processes = self.weight_state.enter(index, losses), self.weight_state.processes
        if step.first:
            self.virtual.check_processes()
            processes.share_state(self)
        theta = self.virtual.theta()
        direction = self.virtual.validation_gradient(theta, self.val_stream, outputs)
        agreement = self.virtual.slopes(theta, batch, outputs, direction)
        agreement = processes.gather(torch.where(step.finite, agreement, 0).clamp_min(0), 0)
        weights = rescale_to_mean_one(agreement, float("inf"), step.present)  # n times the w that sums to one
        self.weight_state.keep(step, weights)
        return self.weight_state.weighted_mean(step, processes.own(weights, len(losses)), losses, outputs)

    def summary(self) -> Summary:
        """Health of the weights; see ``adiw.ADIW.summary``."""
        return self.weight_state.summary(self.val_stream)
