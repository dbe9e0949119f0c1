"""What a training loop shows of each sample: its loss early in training, its label, and the predicted class."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from adiw.matching.batches import none_if_true
from adiw.reweighting.sample_index import write_by_index
from adiw.reweighting.step import Step
from adiw.reweighting.weight_state import WeightState

EARLY_STEPS = 100  # losses are recorded in the first epoch and at least so many steps: before a network memorises


class SampleRecord(nn.Module):
    """Early losses, labels and last predictions of all training samples, for the verdict and the alarms.

    Where the trusted samples are part of the training set, at ``trusted_index``, ``early`` is the last loss of each
    sample in the early steps. Otherwise it is the share of the trusted losses of the same step that are smaller: the
    losses of different steps cannot be compared. Predictions are known for targets (n,) of integers and outputs
    (n, C). Slots of samples that were not seen hold nan or -1; the last slot takes what must not be stored.
    """

    early: Tensor
    labels: Tensor
    predicted: Tensor
    is_trusted: Tensor

    def __init__(self, num_train: int, trusted_index: Tensor | None) -> None:
        super().__init__()
        self.num_train = num_train
        self.register_buffer("early", torch.full((num_train + 1,), float("nan")))
        self.register_buffer("labels", torch.full((num_train + 1,), -1, dtype=torch.int32))
        self.register_buffer("predicted", torch.full((num_train + 1,), -1, dtype=torch.int32))
        self.register_buffer("is_trusted", torch.zeros(num_train, dtype=torch.bool), persistent=False)
        self._late = False  # whether the early steps are known to be over
        self.mark_trusted(trusted_index)

    def mark_trusted(self, trusted_index: Tensor | None) -> None:
        """Say which training samples are trusted; None if the trusted samples are not trained on."""
        self.joined = trusted_index is not None
        self.is_trusted.fill_(False)
        if trusted_index is not None:
            self.is_trusted[trusted_index[trusted_index < self.num_train].to(self.is_trusted.device)] = True

    def write(
        self,
        state: WeightState,
        step: Step,
        losses: Tensor,
        labels: Tensor | None,
        predicted: Tensor | None,
        val_losses: Tensor | None,
    ) -> None:
        """Record a step: losses (g,) and ``class_columns`` of all processes, and trusted losses (m, 1) if known."""
        if labels is not None and predicted is not None:
            self.labels.index_copy_(0, step.index, labels)
            self.predicted.index_copy_(0, step.index, predicted)
        if self._late or not (self.joined or val_losses is not None):
            return
        late = none_if_true((state.seen_samples > self.num_train) & (state.seen_steps > EARLY_STEPS))
        if late is None:
            self._late = True
            return
        if val_losses is not None and not self.joined:
            losses = (val_losses[:, 0] < losses[:, None]).float().mean(1)
        write_by_index(self.early, step.index, losses, step.finite & ~late, step.distinct)

    def known(self) -> Tensor:
        """(num_train,) the training samples with a label and a prediction, trusted samples excluded."""
        return (self.labels[:-1] >= 0) & ~self.is_trusted

    def accuracy(self) -> Tensor:
        """The share of training samples, without trusted ones, whose last predicted class is the given label."""
        known = self.known()
        right = known & (self.labels[:-1] == self.predicted[:-1])
        return right.sum() / known.sum().clamp_min(1)

    def early_losses(self, num_trusted: int) -> tuple[Tensor, Tensor] | None:
        """Early values of the training samples (n,), nan where unknown, and of the trusted ones (m,) to compare."""
        early = self.early[:-1]
        train = torch.where(self.is_trusted, torch.nan, early)
        if not bool(train.isfinite().any()):
            return None
        return train, early[self.is_trusted] if self.joined else torch.arange(num_trusted) / num_trusted

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *arguments: Any) -> None:
        for name in ("early", "labels", "predicted"):  # states of earlier versions have no record
            state.setdefault(prefix + name, getattr(self, name))
        self._late = False
        super()._load_from_state_dict(state, prefix, *arguments)

    def __repr__(self) -> str:
        return "SampleRecord()"


def class_columns(outputs: Any, targets: Any, losses: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """(labels, predicted classes) of a batch, (n,) int32, or (None, None) where targets are not classes.

    >>> class_columns(torch.tensor([[0.1, 0.9]]), torch.tensor([0]), torch.zeros(1))
    (tensor([0], dtype=torch.int32), tensor([1], dtype=torch.int32))
    >>> class_columns(torch.zeros(1, 1), torch.zeros(1), torch.zeros(1))
    (None, None)
    """
    is_labels = isinstance(targets, Tensor) and targets.shape == losses.shape and not targets.is_floating_point()
    is_scores = isinstance(outputs, Tensor) and outputs.ndim == 2 and outputs.shape[1] > 1
    if not (is_labels and is_scores):
        return None, None
    return targets.int(), outputs.detach().argmax(1).int()
