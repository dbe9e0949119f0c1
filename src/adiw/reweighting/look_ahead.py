"""Weights that are estimated for several batches together: those of an optimizer step that accumulates gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from adiw.matching.batches import finite_mask
from adiw.matching.groups import group_sum
from adiw.reweighting.cuda_graphs import can_capture
from adiw.reweighting.dataset_cache import map_tensors
from adiw.reweighting.indexed_with_trusted import split_index
from adiw.reweighting.loss_shapes import sample_losses
from adiw.reweighting.step import WeightedMean

if TYPE_CHECKING:
    from adiw.reweighting.adiw import ADIW

Run = Callable[[Any], tuple[Any, ...]]  # a batch with its index -> (outputs, targets) or (outputs, targets, features)


@dataclass(frozen=True)
class ComingBatch:
    """The weighted mean of a batch that was not trained on yet."""

    mean: WeightedMean
    index: Tensor | None  # (n,) of its samples; None in a stream

    def loss(self, losses: Tensor, outputs: Any, index: Tensor | None) -> Tensor:
        """mean(w * loss) of the losses (n,) of its training pass. An index on a GPU is not compared."""
        same = len(losses) == len(self.mean.slope)
        if same and self.index is not None and index is not None and self.index.is_cpu and index.is_cpu:
            same = torch.equal(index.long(), self.index.long())
        if not same:
            raise ValueError(
                f"these {len(losses)} samples are not the next {len(self.mean.slope)} of look_ahead: train on its "
                "batches in their order"
            )
        finite = finite_mask(losses.detach())
        if self.mean.finite is not None:
            finite = self.mean.finite if finite is None else self.mean.finite & finite
        return replace(self.mean, finite=finite)(losses, outputs)


@dataclass(frozen=True)
class EvaluatedLosses:
    """What a step needs of a batch: the arguments of ``WeightState.gather``."""

    outputs: Any  # without samples, where they are a tensor: only their form is needed
    index: Tensor | None
    losses: Tensor
    sizes: Tensor | None
    columns: Sequence[Tensor | None]


def coming_batches(method: ADIW, batches: Iterable[Any], run: Run | None) -> list[ComingBatch]:
    """One step of the method with all samples of these batches, by their losses in evaluation mode.

    ``run`` is that of the trusted samples, without the index, unless it is given.
    """
    try:
        parts = [_evaluate(method, batch, run) for batch in batches]
        if not parts:
            raise ValueError("look_ahead needs the batches of an optimizer step, got none")
    except Exception as error:
        method.weight_state.share_error(error)
        raise
    counts = [len(part.losses) for part in parts]
    losses, device = torch.cat([part.losses for part in parts]), parts[0].losses.device
    number = torch.cat([torch.full((n,), i, device=device) for i, n in enumerate(counts)])  # of each sample's batch
    columns = [_cat(column) for column in zip(*(part.columns for part in parts), strict=True)]
    index, sizes = _cat([part.index for part in parts]), _cat([part.sizes for part in parts])
    batch = method.weight_state.gather(index, losses, method, sizes, [*columns, number])
    *columns, numbers = batch.columns
    batch = replace(batch, columns=columns)
    mean = method.weighted_mean(batch, parts[0].outputs, can_capture(device), divide=False)
    of_all = torch.ones_like(batch.losses) if batch.sizes is None else batch.sizes
    totals = group_sum(of_all, numbers, len(parts)).clamp_min(1)  # of each batch in all processes
    slopes = mean.slope.split(counts)
    finite = [None] * len(parts) if mean.finite is None else mean.finite.split(counts)
    return [
        ComingBatch(WeightedMean(slopes[i] / batch.processes.divisor(totals[i]), finite[i]), part.index)
        for i, part in enumerate(parts)
    ]


@torch.no_grad()
def _evaluate(method: ADIW, batch: Any, run: Run | None) -> EvaluatedLosses:
    evaluator, device = method.evaluator, method.weights.device
    index, rest = (None, batch) if method.weight_state.is_stream else split_index(batch)
    inputs = map_tensors(lambda tensor: tensor.to(device, non_blocking=True), batch if run else rest)
    outputs, targets, features = evaluator.run_in_evaluation_mode(inputs, evaluator.precision_of(None), run)
    losses, sizes = sample_losses(evaluator.criterion, outputs, targets)
    method.check_call(losses, index, features)
    columns = method.columns(outputs, targets, features, losses)
    return EvaluatedLosses(outputs[:0] if isinstance(outputs, Tensor) else outputs, index, losses, sizes, columns)


def _cat(tensors: Sequence[Tensor | None]) -> Tensor | None:
    """All rows; None if one of the tensors is None."""
    known = [tensor for tensor in tensors if tensor is not None]
    return torch.cat(known) if len(known) == len(tensors) else None
