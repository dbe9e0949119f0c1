"""Per-sample losses in full precision, and gradients that a broken sample does not spoil."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor


def no_autocast(device: torch.device) -> AbstractContextManager[Any]:
    """Full precision, whatever autocast is in force."""
    # While a step is translated the first question is left out: not every torch.compile can answer it.
    exists = torch.compiler.is_compiling() or torch.amp.is_autocast_available(device.type)
    in_force = exists and torch.is_autocast_enabled(device.type)
    return torch.autocast(device.type, enabled=False) if in_force else nullcontext()


def per_sample_losses(criterion: Callable[[Any, Any], Tensor], outputs: Any, targets: Any) -> Tensor:
    """criterion(outputs, targets), checked to be one floating-point loss per sample, (n,).

    A tensor of outputs goes in as float32, outside of any autocast: bf16 logits move a loss by as much as a narrow
    kernel is wide. Other outputs (mappings, objects) are the criterion's own business.

    >>> per_sample_losses(torch.nn.CrossEntropyLoss(), torch.zeros(2, 3), torch.tensor([0, 1]))
    Traceback (most recent call last):
    ValueError: criterion returned a scalar; expected one loss per sample, (n,): build it with reduction="none"
    """
    if isinstance(outputs, Tensor):
        half = outputs.dtype in (torch.bfloat16, torch.float16)
        with no_autocast(outputs.device):
            losses = criterion(outputs.float() if half else outputs, targets)
    else:
        losses = criterion(outputs, targets)
    if not isinstance(losses, Tensor) or not losses.is_floating_point():
        kind = losses.dtype if isinstance(losses, Tensor) else type(losses).__name__
        raise TypeError(f"criterion must return a floating-point tensor (n,), got {kind}")
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
    if isinstance(outputs, Tensor):
        if outputs.requires_grad and outputs.ndim > 0 and len(outputs) == len(finite):
            rows = finite.view(-1, *[1] * (outputs.ndim - 1))
            outputs.register_hook(lambda gradient: torch.where(rows, gradient, 0))
    elif isinstance(outputs, (Mapping, tuple, list)):
        for part in outputs.values() if isinstance(outputs, Mapping) else outputs:
            guard_gradient(part, finite)
