"""Train a network on tensors, the same way for every method: Adam, a fixed number of steps, shuffled batches.

Whole image sets are trained by the engine of the command, on a GPU as CUDA graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from adiw.engine.loop import Loop
from adiw.engine.train_loader import TensorLoader
from adiw.experiments.model_and_optimizer import build_optimizer
from adiw.experiments.settings import Settings
from benchmarks.gauntlet.task import ImageLength, Length

Criterion = Callable[[Tensor, Tensor], Tensor]
AfterStep = Callable[[int], None]
EVALUATED = 2048  # images at a time


class Objective(Protocol):
    """The scalar loss of a training batch."""

    def __call__(self, outputs: Tensor, targets: Tensor, index: Tensor, inputs: Any = None) -> Tensor: ...


def criterion_for(num_classes: int | None) -> Criterion:
    """Per-sample losses (n,): cross-entropy, or the squared error of a regression."""
    return nn.CrossEntropyLoss(reduction="none") if num_classes else squared_error


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs[:, 0] - targets).square()


def mean_of(criterion: Criterion) -> Objective:
    """The mean loss of a batch: uniform weights."""
    return lambda outputs, targets, index, inputs=None: criterion(outputs.float(), targets).mean()


def batches(count: int, batch: int, steps: int) -> Iterator[Tensor]:
    """Positions of ``steps`` batches: a new order in every epoch, the last incomplete batch dropped."""
    batch = min(batch, count)
    made = 0
    while True:
        for index in torch.randperm(count)[: count // batch * batch].split(batch):
            if made == steps:
                return
            yield index
            made += 1


def fit(
    network: nn.Module,
    x: Tensor,
    y: Tensor,
    objective: Objective,
    length: Length,
    after_step: AfterStep | None = None,
) -> nn.Module:
    """Train in place, and return the network. ``after_step`` is called with the number of steps made."""
    if isinstance(length, ImageLength):
        return _fit_images(network, x, y, objective, length, after_step)
    optimizer = torch.optim.Adam(network.parameters(), lr=length.rate, fused=True)
    for step, index in enumerate(batches(len(x), length.batch, length.steps), 1):
        loss = objective(network(x[index]), y[index], index)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if after_step is not None:
            after_step(step)
    return network


def _fit_images(
    network: nn.Module, x: Tensor, y: Tensor, objective: Objective, length: ImageLength, after_step: AfterStep | None
) -> nn.Module:
    device = next(network.parameters()).device
    seed = int(torch.randint(2**31, ()))  # of the order and the augmentation
    loader = TensorLoader(x, y, length.batch, seed, device, length.augment)
    settings = Settings(optimizer="adam", lr=length.rate, weight_decay=length.weight_decay)
    bf16 = length.bf16 and device.type == "cuda"
    loop = Loop(network, objective, build_optimizer(settings, network), loader, bf16, log=print)
    network.train()
    for step in range(length.steps):
        if step % len(loader) == 0:
            loader.set_epoch(step // len(loader))
        loop.train_batch()
        if after_step is not None:
            after_step(step + 1)
    return network


@contextmanager
def own_stream() -> Iterator[None]:
    """Queue work on a stream of its own, as CUDA graphs need it, and wait for it; nothing on a CPU."""
    if not torch.cuda.is_available():
        yield
        return
    before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, True  # shapes do not change
    stream = torch.cuda.Stream()
    try:
        with torch.cuda.stream(stream):
            yield
        stream.synchronize()
    finally:
        torch.backends.cudnn.benchmark = before


def outputs_of(network: nn.Module, x: Tensor) -> Tensor:
    """The outputs for all samples in evaluation mode, without gradient, on the CPU."""
    device, training = next(network.parameters()).device, network.training
    network.eval()
    with torch.no_grad():
        parts = x.split(EVALUATED) if x.dtype == torch.uint8 else (x,)
        outputs = torch.cat([network(part.to(device)).cpu() for part in parts])
    network.train(training)
    return outputs


def predictions(network: nn.Module, x: Tensor, num_classes: int | None) -> Tensor:
    """Predicted classes or values, (n,)."""
    outputs = outputs_of(network, x)
    return outputs.argmax(1) if num_classes else outputs[:, 0]
