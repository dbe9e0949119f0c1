"""Per-sample losses in full precision, and gradients that a broken sample does not spoil."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def full_precision(outputs: Any) -> Any:
    """Half-precision outputs as float32: bf16 logits move a loss by as much as a narrow kernel is wide."""
    half = isinstance(outputs, Tensor) and outputs.dtype in (torch.bfloat16, torch.float16)
    return outputs.float() if half else outputs


def per_sample_losses(criterion: Callable[[Any, Any], Tensor], outputs: Any, targets: Any) -> Tensor:
    """criterion(outputs, targets), checked to be one floating-point loss per sample, (n,).

    >>> per_sample_losses(torch.nn.CrossEntropyLoss(), torch.zeros(2, 3), torch.tensor([0, 1]))
    Traceback (most recent call last):
    ValueError: criterion returned a scalar; expected one loss per sample, (n,): build it with reduction="none"
    """
    losses = criterion(full_precision(outputs), targets)
    if not isinstance(losses, Tensor) or not losses.is_floating_point():
        raise TypeError(f"criterion must return a floating-point tensor (n,), got {type(losses).__name__}")
    if losses.ndim == 0:
        raise ValueError(
            'criterion returned a scalar; expected one loss per sample, (n,): build it with reduction="none"'
        )
    if losses.ndim > 1:
        raise ValueError(
            f"criterion returned shape {tuple(losses.shape)}; expected one loss per sample, (n,): "
            "reduce the other dimensions, e.g. criterion(outputs, targets).flatten(1).mean(1)"
        )
    if len(losses) == 0:
        raise ValueError("the batch is empty: there is no loss to weight")
    return losses if losses.dtype == torch.float64 else losses.float()


def guard_gradient(outputs: Any, finite: Tensor) -> None:
    """Zero the gradient that reaches the outputs of samples whose loss is not finite.

    A weight of zero does not do that: zero times an infinite derivative is not a number.
    """
    if isinstance(outputs, Tensor) and outputs.requires_grad and len(outputs) == len(finite):
        rows = finite.view(-1, *[1] * (outputs.ndim - 1))
        outputs.register_hook(lambda gradient: torch.where(rows, gradient, 0))
