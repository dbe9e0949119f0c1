"""A model's predictions and per-sample scores on a data set, in evaluation mode and without gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset

from adiw.argument_checks import kind_of
from adiw.distributed.split_models import check_whole
from adiw.reweighting.dataset_cache import map_tensors
from adiw.reweighting.loss_shapes import no_autocast, per_sample_losses
from adiw.reweighting.model_evaluator import ModelEvaluator, evaluation_mode, unwrap
from adiw.reweighting.sample_record import class_columns
from adiw.reweighting.transforms import LossValue

BATCH = 256


@dataclass(frozen=True)
class Predictions:
    """Labels (n,) and predicted classes (n,) of a data set, None where targets are not classes; losses (n,)."""

    labels: Tensor | None
    predicted: Tensor | None
    losses: Tensor

    @property
    def right(self) -> Tensor | None:
        """(n,) which samples are predicted correctly; None where targets are not classes."""
        return None if self.labels is None or self.predicted is None else self.labels == self.predicted


def predict(evaluator: ModelEvaluator, model: nn.Module, dataset: Any, index: Tensor | None = None) -> Predictions:
    """Evaluate ``model`` on the samples at ``index``, with the criterion and forward function of ``evaluator``."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"expected a model, an nn.Module that takes the same batches, got {kind_of(model)}")
    check_whole(model, "verdict(held_out=...)")
    dataset = dataset if index is None else Subset(dataset, index.tolist())
    own = ModelEvaluator(unwrap(model), evaluator.criterion, evaluator.forward, LossValue())
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    loader: DataLoader[Any] = DataLoader(dataset, batch_size=BATCH, generator=torch.Generator())
    rows = []
    with torch.no_grad(), evaluation_mode(own.model), no_autocast(device.type):
        for batch in loader:
            outputs, targets, *_ = own.run(map_tensors(lambda x: x.to(device), batch))
            losses = per_sample_losses(own.criterion, outputs, targets)
            rows.append((*class_columns(outputs, targets, losses), losses))
    labels, predicted, losses_all = zip(*rows, strict=True)
    classes = all(label is not None for label in labels)
    label, prediction = (torch.cat(x).cpu() if classes else None for x in (labels, predicted))
    return Predictions(label, prediction, torch.cat(losses_all).cpu())
