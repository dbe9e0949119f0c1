"""The paper's training step, divided into the stages of its profile: eager, with a separate pass for z."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, count
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer
from torch.profiler import record_function

from adiw.baselines import DIW
from adiw.engine.loop import autocast
from adiw.engine.train_loader import Batch
from adiw.reweighting.adiw import ADIW
from adiw.reweighting.model_evaluator import evaluation_mode
from adiw.reweighting.transforms import TransformedBatch
from adiw.reweighting.validation_schedule import ValidationBatch
from adiw.reweighting.weight_state import WeightState

Epochs = Callable[[int], Iterator[Batch]]  # epoch number -> its batches, from a new loader
STAGES = (
    "fetch train",
    "fetch val",
    "forward train",
    "forward val",
    "train loss",
    "val loss",
    "estimate weights",
    "weight loss",
    "backward",
    "update",
)


class StagedStep:
    """One iteration; the profiler records each stage under its name.

    Args:
        model, optimizer: in training mode, on their device.
        reweight: ADIW or DIW. It estimates the weights on its own device: the CPU, or the model's device.
        fetch_val: returns the next validation batch (x, y, index) on the model's device.
        bf16, clip: forward passes in bfloat16, and the largest norm of the gradient.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        reweight: ADIW | DIW,
        fetch_val: Callable[[], Batch],
        bf16: bool = False,
        clip: float | None = None,
    ) -> None:
        self.model, self.optimizer, self.reweight = model, optimizer, reweight
        self.fetch_val, self.bf16, self.clip = fetch_val, bf16, clip
        self.device = next(model.parameters()).device
        # On the model's device, even if the method keeps its own state on the CPU.
        self.loss_state = WeightState(len(reweight.weights), "the weighted loss of a profile").to(self.device)

    def __call__(self, batches: Iterator[Batch]) -> Tensor:
        """Train on the next batch and return the weighted loss."""
        with record_function("fetch train"):
            x, y, index = next(batches)
        with record_function("fetch val"):
            x_val, y_val, index_val = self.fetch_val()
        with torch.no_grad():
            with record_function("forward train"), evaluation_mode(self.model):
                outputs = self._forward(x)
            with record_function("train loss"):  # before the next pass, which replaces the hidden layer
                train = self._transform(outputs, y)
            with record_function("forward val"), evaluation_mode(self.model):
                outputs = self._forward(x_val)
            with record_function("val loss"):
                z, group = self._transform(outputs, y_val)
                val = ValidationBatch(index_val, z, group, newest=z)
            with record_function("estimate weights"):
                weights = self._estimate(index, train, val)
        with record_function("weight loss"):  # includes the training pass, as in the paper's table
            outputs = self._forward(x)
            losses = self.reweight.evaluator.losses(outputs, y)
            step = self.loss_state.begin_step(index, losses)
            loss = self.loss_state.weighted_mean(step, weights, losses, outputs)
        with record_function("backward"):
            loss.backward()
        with record_function("update"):
            if self.clip is not None:
                clip_grad_norm_(self.model.parameters(), self.clip)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def _forward(self, x: Tensor) -> Any:
        with autocast(self.device, self.bf16):
            return self.model(x)

    def _transform(self, outputs: Any, targets: Tensor) -> TransformedBatch:
        evaluator = self.reweight.evaluator
        return evaluator.transform.apply(evaluator.losses(outputs, targets), targets, None)

    def _estimate(self, index: Tensor, train: TransformedBatch, val: ValidationBatch) -> Tensor:
        """The weights of the batch (n,), estimated on the method's device and returned on the model's."""
        device = self.reweight.weights.device
        groups = (None if group is None else group.to(device) for group in (train.group, val.group))
        index, train = index.to(device), TransformedBatch(train.z.to(device), next(groups))
        z = val.z.to(device)
        val = ValidationBatch(val.index.to(device), z, next(groups), newest=z)
        step = self.reweight.weight_state.begin_step(index, train.z[:, 0])
        return self.reweight.estimate(step, train, val).to(self.device)


def one_loader(epochs: Epochs) -> Callable[[], Batch]:
    """Validation batches from one loader; a new one is made only when it is exhausted."""
    batches = chain.from_iterable(epochs(number) for number in count())
    return lambda: next(batches)


def one_loader_per_batch(epochs: Epochs) -> Callable[[], Batch]:
    """Validation batches as in the original DIW: a new loader for each batch, of which the first batch is used."""
    numbers = count()
    return lambda: next(epochs(next(numbers)))
