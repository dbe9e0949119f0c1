"""What all baselines share: the losses of a batch, the validation samples, and weights by index."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Generator, Tensor, nn

from adiw.reweighting.dataset_cache import CACHE_BYTES
from adiw.reweighting.extra_state import ResumableGenerator
from adiw.reweighting.loss_shapes import Criterion, sample_losses
from adiw.reweighting.model_evaluator import Forward, ModelEvaluator, move_to_device_of
from adiw.reweighting.step import Step
from adiw.reweighting.summary import Summary
from adiw.reweighting.transforms import LossValue
from adiw.reweighting.validation_schedule import ValidationSchedule
from adiw.reweighting.weight_state import WeightState


class Baseline(nn.Module):
    """A method with the arguments and the calls of ``adiw.ADIW``. A subclass has ``_batch_weights``.

    Args as for ``adiw.ADIW``.
        val_set: None for a method without validation samples.
        settings: those of the subclass, as text: a state with others is refused.
    """

    runs_batch: ClassVar[str | None] = None  # why the model runs on the batch again: a call then needs its inputs
    bound: ClassVar[float | None] = None  # the largest weight

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
        settings: str = "",
        warmup_steps: int | None = 0,
    ) -> None:
        super().__init__()
        self.evaluator = ModelEvaluator(model, criterion, forward, LossValue())
        self.randomness = ResumableGenerator(generator)
        self.val_schedule: Any = None
        if val_set is not None:
            order = self.randomness.on_host()
            self.val_schedule = ValidationSchedule(val_set, val_batch, None, order, cache_bytes, val_workers)
        name = f"{type(self).__name__}({settings})"
        self.weight_state = WeightState(num_train, name, warmup_steps=warmup_steps)
        move_to_device_of(model, self)

    @property
    def weights(self) -> Tensor:
        """The last weight of every training sample, (num_train,); one for samples without an estimate."""
        return self.weight_state.weights

    def forward(self, outputs: Any, targets: Any, index: Tensor, inputs: Any = None) -> Tensor:
        """mean(w * loss) of a batch: a scalar, ready for backward."""
        losses, sizes = samples = sample_losses(self.evaluator.criterion, outputs, targets)
        if not self.training:
            return samples.mean()
        reason = self.runs_batch
        batch = None if reason is None else self.evaluator.training_batch(inputs, targets, reason)
        step = self.weight_state.begin_step(index, losses, self, sizes)
        weights = self._batch_weights(step, losses, outputs, batch)
        return self.weight_state.weighted_mean(step, weights, losses, outputs)

    def _batch_weights(self, step: Step, losses: Tensor, outputs: Any, batch: Any) -> Tensor:
        """The weights of a batch in all processes, (g,), from this process's losses (n,) and outputs.

        ``batch`` is what the evaluator takes to run the model again; None unless the class has ``runs_batch``.
        """
        raise NotImplementedError

    def summary(self) -> Summary:
        """Statistics of the weights; see ``adiw.ADIW.summary``."""
        return self.weight_state.summary(self.val_schedule, bound=self.bound)
