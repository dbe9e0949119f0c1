"""Losses that are not finite: their samples have no gradient, and a warning counts and names them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from adiw.matching.batches import none_if_true
from adiw.reweighting.summary import name_indices


def zero_gradient(outputs: Any, finite: Tensor) -> None:
    """Zero the gradient of the outputs of samples whose loss is not finite.

    A weight of zero does not do that: zero times an infinite derivative is not a number. Where all are known to be
    finite, the gradient is not copied.
    """
    if none_if_true(finite.all()) is None:
        return
    if isinstance(outputs, Tensor):
        if outputs.requires_grad and outputs.ndim > 0 and len(outputs) == len(finite):
            rows = finite.view(-1, *[1] * (outputs.ndim - 1))
            outputs.register_hook(lambda gradient: torch.where(rows, gradient, 0))
    elif isinstance(outputs, (Mapping, tuple, list)):
        for part in outputs.values() if isinstance(outputs, Mapping) else outputs:
            zero_gradient(part, finite)


def warn_of_nonfinite(kind: str, counts: Tensor, warned: dict[str, int], named: bool = True) -> int:
    """Warn of samples whose loss was not finite, so often as ``counts`` (n,) says: their sum.

    The warning is repeated each time that the sum has doubled since the one in ``warned``, by ``kind``.
    """
    total = int(counts.sum())
    if total and total >= 2 * warned.get(kind, 0):
        warned[kind] = total
        names = f"; {kind} samples: {name_indices(counts)}" if named else ""
        warnings.warn(
            f"{total} {kind} losses so far were not finite and were excluded{names}",
            stacklevel=4,  # the caller of the method's summary()
        )
    return total
