"""One step for every method, an epoch of steps, and evaluation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

Reweight = Callable[..., Tensor]


@dataclass(frozen=True)
class EpochResult:
    """A training epoch: its mean loss, and seconds from the first batch to the last update."""

    loss: float
    seconds: float


def train_step(
    model: nn.Module,
    reweight: Reweight,
    optimizer: Optimizer,
    x: Tensor,
    y: Tensor,
    index: Tensor,
    bf16: bool = False,
) -> Tensor:
    """Forward, weights, backward, update: the weighted loss of the batch, without waiting for the device."""
    with autocast(x.device, bf16):
        outputs = model(x)
    loss = reweight(outputs, y, index, inputs=x)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach()


def train_epoch(
    model: nn.Module,
    reweight: Reweight,
    optimizer: Optimizer,
    batches: Iterable[tuple[Tensor, Tensor, Tensor]],
    bf16: bool = False,
) -> EpochResult:
    """A step for every batch."""
    model.train()
    synchronise(next(model.parameters()).device)
    start, losses = time.perf_counter(), []
    for x, y, index in batches:
        losses.append(train_step(model, reweight, optimizer, x, y, index, bf16))
    mean = float(torch.stack(losses).mean())  # the one wait of the epoch
    synchronise(losses[0].device)
    return EpochResult(mean, time.perf_counter() - start)


@torch.no_grad()
def evaluate(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], bf16: bool = False) -> tuple[float, float]:
    """Top-1 and top-5 accuracy in percent, in evaluation mode. Of fewer than five classes, top-5 is 100."""
    model.eval()
    hits, total = torch.zeros(2, dtype=torch.long), 0
    for x, y in batches:
        with autocast(x.device, bf16):
            outputs = model(x)
        best = outputs.float().topk(min(5, outputs.shape[1]), dim=1).indices == y[:, None]
        hits = hits.to(x.device) + torch.stack([best[:, 0].sum(), best.sum()])
        total += len(y)
    model.train()
    top1, top5 = (100 * count / total for count in hits.tolist())
    return top1, top5


@torch.no_grad()
def predict(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
    """The predicted class of every sample, (n,) on the CPU, in evaluation mode."""
    model.eval()
    classes = torch.cat([model(x).argmax(1).cpu() for x, _ in batches])
    model.train()
    return classes


def in_batches(x: Tensor, y: Tensor, size: int = 2048) -> Iterator[tuple[Tensor, Tensor]]:
    """Samples on the device, ``size`` at a time, none left out."""
    for start in range(0, len(x), size):
        yield x[start : start + size], y[start : start + size]


def set_learning_rate(optimizer: Optimizer, rate: float) -> None:
    """The same rate for all parameters; a rate kept as a tensor is filled in place."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def autocast(device: torch.device, bf16: bool) -> AbstractContextManager[Any]:
    """bfloat16 for the forward pass, or full precision."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=bf16)


def synchronise(device: torch.device) -> None:
    """Wait for a GPU, so that a clock read means something."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
