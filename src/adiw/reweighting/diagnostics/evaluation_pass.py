"""A pass over samples in evaluation mode: losses, predictions and hidden-layer outputs, for verdict and audit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.utils.data import DataLoader, Subset

from adiw.argument_checks import kind_of
from adiw.distributed.split_models import check_whole
from adiw.reweighting.dataset_cache import map_tensors
from adiw.reweighting.diagnostics.quick_model import projected
from adiw.reweighting.loss_shapes import Criterion, no_autocast, per_sample_losses
from adiw.reweighting.model_evaluator import ModelEvaluator, evaluation_mode, unwrap
from adiw.reweighting.progress import OnProgress, silent
from adiw.reweighting.transforms import LossValue

BATCH = 256
DIMENSIONS = 64  # of the hidden-layer outputs that are kept, after a random projection
CHUNK = 2**24  # distances that are computed at a time
PAIRS = 2000  # of samples, for the median distance


@dataclass(frozen=True)
class EvaluatedSamples:
    """The losses, predictions and features of samples: tensors (n, ...) on the CPU."""

    losses: Tensor  # (n,)
    targets: Tensor | None  # (n,) classes or numbers; None for other targets
    predicted: Tensor | None  # (n,) classes or numbers
    confidence: Tensor | None  # (n,) probability of the predicted class
    # (n, d) for classes: the input of the last linear layer, or the outputs; d is at most DIMENSIONS
    features: Tensor | None

    @property
    def right(self) -> Tensor | None:
        """(n,) which samples are predicted correctly; None where targets are not classes."""
        if self.targets is None or self.predicted is None or self.targets.is_floating_point():
            return None
        return self.targets == self.predicted

    def map(self, fn: Callable[[Tensor], Tensor]) -> EvaluatedSamples:
        """``fn`` of each tensor."""
        found = [getattr(self, field.name) for field in fields(self)]
        return EvaluatedSamples(*(None if tensor is None else fn(tensor) for tensor in found))  # type: ignore[arg-type]


def evaluate_samples(
    model: nn.Module,
    criterion: Criterion,
    batches: Iterable[Any],
    run: Callable[[Any], tuple[Any, ...]],
    progress: OnProgress = silent,
    total: int = 0,
) -> EvaluatedSamples:
    """The pass over these batches of ``total`` samples, in order. ``run(batch)`` gives (outputs, targets, ...)."""
    parts, done = [], 0
    with torch.no_grad(), evaluation_mode(model), _inputs_of_linear_layers(model) as hidden:
        for batch in batches:
            outputs, targets = run(batch)[:2]
            losses = per_sample_losses(criterion, outputs, targets)
            parts.append(_one(outputs, targets, losses, hidden))
            hidden.clear()
            done += len(losses)
            progress("evaluating, sample", done, total)
    if not parts:
        raise ValueError("there are no samples to evaluate: the data set is empty")
    columns = zip(*([getattr(part, field.name) for field in fields(part)] for part in parts), strict=True)
    whole: list[Any] = [None if any(x is None for x in column) else torch.cat(column) for column in columns]
    return EvaluatedSamples(*whole)


def evaluate_dataset(
    evaluator: ModelEvaluator,
    model: nn.Module,
    dataset: Any,
    index: Tensor | None = None,
    progress: OnProgress = silent,
) -> EvaluatedSamples:
    """Evaluate ``model`` on the samples at ``index``, with the criterion and forward function of ``evaluator``."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"expected a model, an nn.Module that takes the same batches, got {kind_of(model)}")
    check_whole(model, "verdict(held_out=...)")
    own = ModelEvaluator(unwrap(model), evaluator.criterion, evaluator.forward, LossValue())
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    dataset = dataset if index is None else Subset(dataset, index.tolist())
    loader: DataLoader[Any] = DataLoader(dataset, batch_size=BATCH, generator=torch.Generator())
    batches = (map_tensors(lambda x: x.to(device), batch) for batch in loader)
    with no_autocast(device.type):
        return evaluate_samples(own.model, own.criterion, batches, own.run, progress, len(dataset))


def _one(outputs: Any, targets: Any, losses: Tensor, hidden: list[Tensor]) -> EvaluatedSamples:
    count = len(losses)
    scalar = isinstance(targets, Tensor) and targets.numel() == count
    predicted = confidence = None
    if isinstance(outputs, Tensor) and scalar:
        if not targets.is_floating_point() and outputs.ndim == 2 and outputs.shape[1] > 1:
            confidence, predicted = outputs.float().softmax(1).max(1)
        elif targets.is_floating_point() and outputs.numel() == count:
            predicted = outputs.reshape(-1)
    features = None
    if scalar and not targets.is_floating_point():  # only classes have neighbours with another label
        shown = outputs if isinstance(outputs, Tensor) else None
        features = next((x for x in reversed(hidden) if len(x) == count), shown)
    found = EvaluatedSamples(
        losses,
        targets.reshape(-1) if scalar else None,
        predicted,
        confidence,
        None if features is None or features.ndim < 2 else projected(features.float().flatten(1), DIMENSIONS),
    )
    return found.map(lambda tensor: tensor.cpu())


@contextmanager
def _inputs_of_linear_layers(model: nn.Module) -> Iterator[list[Tensor]]:
    """A list to which each linear layer appends its input (n, d) in a pass."""
    seen: list[Tensor] = []

    def keep(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if inputs and isinstance(inputs[0], Tensor) and inputs[0].ndim == 2:
            seen.append(inputs[0])

    hooks = [m.register_forward_pre_hook(keep) for m in model.modules() if isinstance(m, nn.Linear)]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def nearest_others(
    features: Tensor, labels: Tensor, queries: Tensor, progress: OnProgress = silent
) -> tuple[Tensor, Tensor]:
    """(index, distance), (k,) each: the nearest sample with another label than each of ``queries`` (k,).

    Distances are divided by the median distance between samples. The index is -1 where all labels are the same.

    >>> features = torch.tensor([[0.0, 0.0], [0.0, 0.1], [3.0, 4.0]])
    >>> nearest_others(features, torch.tensor([0, 1, 1]), torch.tensor([0]))[0]
    tensor([1])
    """
    pairs = torch.randint(len(features), (2, PAIRS), generator=Generator().manual_seed(0))
    between = (features[pairs[0]] - features[pairs[1]]).norm(dim=1)
    median = between[between > 0].median() if bool((between > 0).any()) else torch.ones(())
    index, distance = [], []
    for chunk in queries.split(max(1, CHUNK // len(features))):
        apart = torch.cdist(features[chunk], features, compute_mode="donot_use_mm_for_euclid_dist")
        found = apart.masked_fill_(labels[chunk][:, None] == labels, torch.inf).min(1)
        distance.append(found.values / median)
        index.append(found.indices.where(found.values.isfinite(), -1))
        progress("neighbours, sample", sum(map(len, index)), len(queries))
    return torch.cat(index), torch.cat(distance)
