"""The samples of one step, gathered from all processes, and the weighted mean of their losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from adiw.distributed.process_group import Processes


@dataclass(frozen=True)
class GatheredBatch:
    """The batch of one step: g samples from all processes, of which ``count`` belong to this process."""

    index: Tensor  # (g,) in the training set; ``PADDING`` where a process has fewer samples than another
    losses: Tensor  # (g,) without gradient, nan where ``index`` pads
    sizes: Tensor | None  # (g,) number of elements of each sample, zero where ``index`` pads; None: the same for all
    columns: Sequence[Tensor | None]  # what else was gathered, (g, ...); None where a column was None
    count: int
    checked: bool  # whether every index is known to be in the training set
    distinct: bool  # whether every sample is known to occur only once
    processes: Processes
    starts_group: bool  # whether this is the first step of several processes


@dataclass(frozen=True)
class Step(GatheredBatch):
    """A batch that was counted. ``index`` is the size of the training set for rows that pad and for bad indices."""

    finite: Tensor | None  # (g,) whether the loss is finite; None if all are and the host knows it
    num_samples: int | Tensor  # of all processes, without padding
    num_train: int  # the size of the training set
    past_warmup: Tensor | None  # a boolean on the device, None if known to be true

    @property
    def is_sample(self) -> Tensor:
        """(g,) false for rows that pad."""
        return self.index < self.num_train

    @property
    def local_finite(self) -> Tensor | None:
        """(n,) whether the loss is finite, for the ``count`` samples of this process; None if all are known to be."""
        return None if self.finite is None else self.local(self.finite)

    def local(self, values: Tensor) -> Tensor:
        """The rows (n,) of this process in ``values`` (g,)."""
        return values if len(values) == self.count else values.narrow(0, self.processes.offset, self.count)


@dataclass(frozen=True)
class WeightedMean:
    """mean(w * loss) of a batch as a function of this process's losses (n,): a sum with constant factors."""

    slope: Tensor  # (n,) factor of each loss, zero where the loss is not finite
    finite: Tensor | None  # (n,) whether the loss is finite; None if all are and the host knows it

    @classmethod
    def of(cls, step: Step, weights: Tensor, dtype: torch.dtype, divide: bool = True) -> WeightedMean:
        """From the weights (g,), for losses of this dtype. Without ``divide`` it is a sum."""
        finite, slope, total = step.local_finite, step.local(weights).to(dtype), step.num_samples
        if step.sizes is not None:
            slope, total = slope * step.local(step.sizes), step.sizes.sum().clamp_min(1)
        if finite is not None:
            slope = torch.where(finite, slope, 0)
        return cls(slope / step.processes.divisor(total) if divide else slope, finite)

    def clone(self) -> WeightedMean:
        return WeightedMean(self.slope.clone(), None if self.finite is None else self.finite.clone())

    def __call__(self, losses: Tensor, outputs: Any) -> Tensor:
        """The mean as a scalar that is ready for backward, from the losses (n,) and the model's outputs."""
        if self.finite is not None:
            zero_gradient(outputs, self.finite)
            losses = torch.where(self.finite, losses, 0)
        return torch.dot(losses, self.slope)


def zero_where_not(mask: Tensor | None, values: Tensor) -> Tensor:
    """``values`` where ``mask`` is true, zero elsewhere; a mask of None is true everywhere."""
    return values if mask is None else torch.where(mask, values, 0)


def zero_gradient(outputs: Any, finite: Tensor) -> None:
    """Zero the gradient of the outputs of samples whose loss is not finite.

    A weight of zero does not do that: zero times an infinite derivative is not a number.
    """
    if isinstance(outputs, Tensor):
        if outputs.requires_grad and outputs.shape[:1] == finite.shape:
            rows = finite.view(-1, *[1] * (outputs.ndim - 1))
            outputs.register_hook(lambda gradient: torch.where(rows, gradient, 0))
    elif isinstance(outputs, (Mapping, tuple, list)):
        for part in outputs.values() if isinstance(outputs, Mapping) else outputs:
            zero_gradient(part, finite)
