"""Train a network on tensors, the same way for every method: Adam, a fixed number of steps, shuffled batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import torch
from torch import Tensor, nn

from benchmarks.gauntlet.task import Length

Criterion = Callable[[Tensor, Tensor], Tensor]


class Objective(Protocol):
    """The scalar loss of a training batch."""

    def __call__(self, outputs: Tensor, targets: Tensor, index: Tensor) -> Tensor: ...


def criterion_for(num_classes: int | None) -> Criterion:
    """Per-sample losses (n,): cross-entropy, or the squared error of a regression."""
    return nn.CrossEntropyLoss(reduction="none") if num_classes else squared_error


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs[:, 0] - targets).square()


def mean_of(criterion: Criterion) -> Objective:
    """The mean loss of a batch: uniform weights."""
    return lambda outputs, targets, index: criterion(outputs, targets).mean()


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
    after_step: Callable[[int], None] | None = None,
) -> nn.Module:
    """Train in place, and return the network. ``after_step`` is called with the number of steps made."""
    optimizer = torch.optim.Adam(network.parameters(), lr=length.rate, fused=True)
    for step, index in enumerate(batches(len(x), length.batch, length.steps), 1):
        loss = objective(network(x[index]), y[index], index)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if after_step is not None:
            after_step(step)
    return network


def outputs_of(network: nn.Module, x: Tensor) -> Tensor:
    """The outputs for all samples, without gradient."""
    with torch.no_grad():
        return network(x)


def predictions(network: nn.Module, x: Tensor, num_classes: int | None) -> Tensor:
    """Predicted classes or values, (n,)."""
    outputs = outputs_of(network, x)
    return outputs.argmax(1) if num_classes else outputs[:, 0]
