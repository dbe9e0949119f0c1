"""Evaluation: accuracy and loss."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from adiw.engine.loop import autocast


@torch.no_grad()
def evaluate(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], bf16: bool = False) -> Tensor:
    """For each sample whether it is top-1 and top-5 correct, and its cross-entropy: (n, 3) float64 on the device.

    With five classes or fewer, every sample is top-5 correct.
    """
    model.eval()
    rows = [torch.zeros(0, 3, dtype=torch.float64, device=next(model.parameters()).device)]
    for x, y in batches:
        with autocast(x.device, bf16):
            outputs = model(x).float()
        correct = outputs.topk(min(5, outputs.shape[1]), dim=1).indices == y[:, None]
        losses = cross_entropy(outputs, y, reduction="none")
        rows.append(torch.stack([correct[:, 0].double(), correct.sum(1).double(), losses.double()], dim=1))
    model.train()
    return torch.cat(rows)


def in_batches(x: Tensor, y: Tensor, size: int = 2048) -> Iterator[tuple[Tensor, Tensor]]:
    """All samples in order, ``size`` at a time; the last batch may be smaller."""
    for start in range(0, len(x), size):
        yield x[start : start + size], y[start : start + size]
