"""Learning to reweight (L2R): weights from inner products of per-sample gradients and the validation gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor, nn

from adiw.baselines.functional_model import FunctionalModel
from adiw.matching.weight_limits import rescale_to_mean_one
from adiw.reweighting.dataset_cache import CACHE_BYTES
from adiw.reweighting.loss_shapes import Criterion
from adiw.reweighting.model_evaluator import Forward, move_to_device_of
from adiw.reweighting.resumable_generator import ResumableGenerator
from adiw.reweighting.summary import Summary
from adiw.reweighting.validation_stream import ValidationStream
from adiw.reweighting.weight_state import WeightState


class L2R(nn.Module):
    """w_i = max(0, -d L_val(theta - alpha sum_j eps_j grad loss_j) / d eps_i) at eps = 0   (Ren et al. 2018).

    The weights of a batch are then scaled to sum to one, unless all are zero. The derivative is
    alpha <grad L_val(theta), grad loss_i(theta)>, and alpha cancels: one validation gradient and one forward-mode
    pass over the training batch give the weights exactly, with no second-order graph. Operators without forward mode
    use double backward, with one warning.

    The loss is sum(w * loss), and zero if all w are zero. ``weights`` holds n * w, so that the loss is
    mean(weights * loss) as for every other method. Both passes run in the model's current mode (training mode while
    it trains) and do not change its buffers; see ``FunctionalModel``.

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
        self.functional = FunctionalModel(model, criterion, forward)
        order = ResumableGenerator(generator).on_host()
        self.val_stream = ValidationStream(val_set, val_batch, None, order, cache_bytes, val_workers)
        self.weight_state = WeightState(num_train, "L2R()")
        move_to_device_of(model, self)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the passes with ``torch.compile(*args, **kwargs)``; see ``FunctionalModel.compile``."""
        self.functional.compile(*args, **kwargs)

    @property
    def weights(self) -> Tensor:
        """The last weight of every training sample, (num_train,), such that the loss is mean(weights * loss)."""
        return self.weight_state.weights

    def forward(self, outputs: Any, targets: Any, index: Tensor, inputs: Any = None) -> Tensor:
        """sum(w * loss) of a batch: a scalar, ready for backward."""
        evaluator = self.functional.evaluator
        losses = evaluator.losses(outputs, targets)
        if not self.training:
            return losses.mean()
        batch = evaluator.training_batch(inputs, targets, "L2R differentiates the losses of the training batch")
        step = self.weight_state.begin_step(index, losses, self)
        if step.starts_group:
            self.functional.refuse_batch_norm()
        theta = self.functional.theta()
        direction = self.functional.validation_gradient(theta, self.val_stream, outputs, step.processes)
        products = self.functional.jvp(theta, batch, outputs, direction)
        products = torch.where(step.local_finite, products, 0).clamp_min(0)
        (products,) = step.processes.gather([products], [0])
        weights = rescale_to_mean_one(products, float("inf"), step.is_sample)  # n times the w that sums to one
        weights = self.weight_state.store(step, weights, step.finite)
        return self.weight_state.weighted_mean(step, weights, losses, outputs)

    def summary(self) -> Summary:
        """Statistics of the weights; see ``adiw.ADIW.summary``."""
        return self.weight_state.summary(self.val_stream)
