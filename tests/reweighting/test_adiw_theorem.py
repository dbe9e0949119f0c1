"""Theorem 1 on a convex problem: the mean squared gradient of the weighted risk is at most Delta / sqrt(S).

Full batches, so that sigma = 0 and Delta = 2 B M / c, with the theorem's learning rate c / sqrt(S) and the largest c
that its proof allows at the smallest S.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.utils.data import TensorDataset

from adiw import ADIW
from adiw.divergences import MMD

NUM_TRAIN, LENGTHS = 60, (25, 100, 400)
B, M = 1.3, 3.0  # bounds on the weights and the losses; the tests check that the runs keep them
DIVERGENCE = MMD(width=0.5, step_size=1e-5, upper=B)  # a step so small that W2 holds while the gradient is large


def problem() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Two classes in the plane, a fifth of the training labels flipped."""
    generator = Generator().manual_seed(0)
    y = torch.arange(NUM_TRAIN) % 2
    x = torch.randn(NUM_TRAIN, 2, generator=generator, dtype=torch.float64) * 0.5 + (2 * y[:, None] - 1)
    noisy = torch.where(torch.arange(NUM_TRAIN) % 5 == 0, 1 - y, y)
    return x, noisy.double(), x[:30], y[:30].double()


def smoothness(x: Tensor) -> float:
    """L of the weighted logistic risk: B / 4 times the largest eigenvalue of the mean of (x, 1)(x, 1)'."""
    design = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], 1)
    return B / 4 * float(torch.linalg.eigvalsh(design.T @ design / len(x)).max())


@dataclass
class Run:
    mean_square: float  # of the gradient norm, over the steps
    first_square: float
    largest_loss: float
    largest_weight: float
    ratios: list[float]  # of assumption W2


@cache
def run(steps: int, learning_rate: float) -> Run:
    x, y, x_val, y_val = problem()
    model = nn.Linear(2, 1, dtype=torch.float64)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    bce = nn.BCEWithLogitsLoss(reduction="none")
    losses: list[float] = []

    def criterion(outputs: Tensor, targets: Tensor) -> Tensor:
        values = bce(outputs[:, 0], targets)
        losses.append(float(values.detach().max()))
        return values

    reweight = ADIW(model, criterion, TensorDataset(x_val, y_val), NUM_TRAIN, DIVERGENCE, warmup_steps=0).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    squares, ratios, largest = [], [], 0.0
    for _ in range(steps):
        optimizer.zero_grad()
        reweight(model(x), y, torch.arange(NUM_TRAIN)).backward()
        found = reweight.stationarity(max(learning_rate, 1e-12))
        squares.append(found.gradient_norm**2)
        ratios.append(found.w2_ratio)
        largest = max(largest, float(reweight.weights.max()))
        optimizer.step()
    return Run(sum(squares) / steps, squares[0], max(losses), largest, ratios)


def largest_c() -> float:
    """alpha < n / (2 M T + n L), with T = 1, at the smallest S."""
    return 0.99 * math.sqrt(LENGTHS[0]) * NUM_TRAIN / (2 * M + NUM_TRAIN * smoothness(problem()[0]))


def bound(steps: int) -> float:
    return 2 * B * M / largest_c() / math.sqrt(steps)


@pytest.mark.parametrize("steps", LENGTHS)
def test_the_mean_squared_gradient_is_within_the_bound(steps: int) -> None:
    done = run(steps, largest_c() / math.sqrt(steps))
    assert done.largest_weight <= B
    assert done.largest_loss < M
    assert done.mean_square <= bound(steps)
    assert done.ratios[1] <= 1  # W2 holds while the gradient is large
    assert done.ratios[-1] > 1  # violations are reported


def test_the_mean_squared_gradient_falls_at_the_rate_of_the_theorem() -> None:
    means = [run(steps, largest_c() / math.sqrt(steps)).mean_square for steps in LENGTHS]
    for shorter, longer in pairwise(means):
        assert longer <= shorter / 2 * 1.05  # S four times as long: half, with a margin of 5%


def test_a_run_without_progress_violates_the_bound() -> None:
    """The bound is not trivial: the initial gradient is above it."""
    stuck = run(3, 0.0)
    assert stuck.mean_square == pytest.approx(stuck.first_square, rel=1e-3)
    assert stuck.mean_square > 1.5 * bound(LENGTHS[-1])
