"""A small network that is trained out of fold: losses by which all samples are treated alike.

The network of a training has learned each sample's label, and trusted samples better than others, so its losses of
the two do not compare. No sample's loss is by a quick model that was trained on it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, cross_entropy

FOLDS, STEPS, BATCH, HIDDEN = 5, 300, 256, 64
SIDE = 8  # pixels of the sides of its images


def features_of(x: Tensor) -> Tensor:
    """(n, d) float32 inputs of a quick model; images (n, c, h, w) are reduced to ``SIDE`` x ``SIDE`` pixels."""
    return (adaptive_avg_pool2d(x.float(), SIDE) if x.ndim == 4 else x.float()).flatten(1)


def standardised(x: Tensor) -> Tensor:
    """Columns with mean zero and standard deviation one; those that do not vary, or are not finite, are zero."""
    x = x.nan_to_num(0, 0, 0)
    return (x - x.mean(0)) / x.std(0).clamp_min(1e-6)


def out_of_fold_losses(
    x: Tensor,
    y: Tensor,
    is_trusted: Tensor,
    generator: Generator,
    weights: Tensor | None = None,
    done: Callable[[], None] = lambda: None,
) -> Tensor:
    """(n,) the loss of each sample by a quick model that was not trained on it.

    Cross-entropy for classes y (n,), or the squared error for numbers. Trusted samples are treated as all others;
    each fold has its share of them. Samples count with their ``weights`` (n,) in training; ``done`` is called after
    each fold.
    """
    fold = torch.zeros(len(x), dtype=torch.long)
    for member in (is_trusted, ~is_trusted):
        fold[member] = torch.randperm(int(member.sum()), generator=generator) % FOLDS
    classes = 0 if y.is_floating_point() else 1 + int(y.max())
    weights = torch.ones(len(x)) if weights is None else weights / weights.mean().clamp_min(1e-12)
    if not classes:
        centre = (weights * y).mean()
        y = (y - centre) / (weights * (y - centre).square()).mean().sqrt().clamp_min(1e-12)
    losses = torch.zeros(len(x))
    for number in range(FOLDS):
        rest, own = (fold != number).nonzero().flatten(), fold == number
        if bool(own.any()) and len(rest):
            network = _train(x[rest], y[rest], weights[rest], classes, generator)
            with torch.no_grad():
                losses[own] = _losses(network(x[own]), y[own])
        done()
    return losses


def _train(x: Tensor, y: Tensor, weights: Tensor, classes: int, generator: Generator) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**31, (), generator=generator)))
        network = nn.Sequential(nn.Linear(x.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, classes or 1))
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=0.1)
    for _ in range(STEPS):
        index = torch.randint(len(x), (min(BATCH, len(x)),), generator=generator)
        optimizer.zero_grad()
        (weights[index] * _losses(network(x[index]), y[index])).mean().backward()
        optimizer.step()
    return network


def _losses(outputs: Tensor, y: Tensor) -> Tensor:
    if y.is_floating_point():
        return (outputs[:, 0] - y).square()
    return cross_entropy(outputs, y.long(), reduction="none")
