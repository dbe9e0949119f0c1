"""What is wrong with training samples: labels, class mix, units. Trusted and test samples stay as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from benchmarks.gauntlet.task import Pool


def symmetric(y: NDArray[Any], rate: float, num_classes: int, rng: np.random.Generator) -> NDArray[Any]:
    """Each label becomes one of the other classes, drawn at random, with this probability."""
    other = (y + rng.integers(1, num_classes, len(y))) % num_classes
    return np.where(rng.random(len(y)) < rate, other, y)


def pair(y: NDArray[Any], rate: float, num_classes: int, rng: np.random.Generator) -> NDArray[Any]:
    """Each label becomes the next class with this probability."""
    return np.where(rng.random(len(y)) < rate, (y + 1) % num_classes, y)


def thin_classes(pool: Pool, num_classes: int, keep: float, rng: np.random.Generator) -> Pool:
    """Half the classes, drawn at random, are cut to a fraction of their samples."""
    rare = rng.permutation(num_classes)[: num_classes // 2]
    return pool[np.flatnonzero(~np.isin(pool.y, rare) | (rng.random(len(pool)) < keep))]


def wrong_units(y: NDArray[Any], rate: float, factor: float, rng: np.random.Generator) -> NDArray[Any]:
    """Each target is multiplied by a factor, as if noted in another unit, with this probability."""
    return np.where((rng.random(len(y)) < rate) & (y != 0), y * factor, y)


def keep_low(pool: Pool, score: NDArray[Any], rng: np.random.Generator) -> Pool:
    """Covariate shift: a sample is kept with probability sigmoid(-2 z), z its standardised score."""
    z = (score - score.mean()) / score.std()
    return pool[np.flatnonzero(rng.random(len(pool)) < 1 / (1 + np.exp(2 * z)))]


def confusions(
    pool: Pool, teacher_pool: Pool, rate: float, num_classes: int, rng: np.random.Generator, steps: int = 60
) -> NDArray[Any]:
    """Labels drawn from a weaker network's own predictions, so that the error depends on the sample.

    The network has 32 hidden units and few steps of training on other samples with their true labels, but enough
    that it is right more often than the labels shall be. The temperature of its predictions is the one at which
    the expected share of wrong labels is ``rate``.
    """
    logits, truth = (
        weak_logits(pool, teacher_pool, num_classes, rng, steps),
        torch.as_tensor(pool.y, dtype=torch.int64)[:, None],
    )
    low, high = 1e-3, 1e3  # a cold network makes its own errors only, a hot one guesses
    for _ in range(40):
        temperature = (low * high) ** 0.5
        chances = (logits / temperature).softmax(1)
        error = 1 - chances.gather(1, truth).mean().item()
        low, high = (temperature, high) if error < rate else (low, temperature)
    return draw_labels(chances, rng)


def rarer_confusions(
    pool: Pool, teacher_pool: Pool, rate: float, num_classes: int, rng: np.random.Generator, steps: int
) -> NDArray[Any]:
    """Labels by a network that is wrong more often than the labels shall be.

    A sample has the class that the network predicts, or its true one, by chance: the probability is the one at which
    the expected share of wrong labels is ``rate``.
    """
    predicted = weak_logits(pool, teacher_pool, num_classes, rng, steps).argmax(1).numpy()
    wrong = float((predicted != pool.y).mean())
    if wrong < rate:
        raise ValueError(f"the network is wrong on {wrong:.2f} of the samples: take fewer steps, or confusions()")
    return np.where(rng.random(len(pool)) < rate / wrong, predicted, pool.y)


def weak_logits(
    pool: Pool, teacher_pool: Pool, num_classes: int, rng: np.random.Generator, steps: int
) -> torch.Tensor:
    """Outputs (n, num_classes) for a pool by a network of 32 hidden units, trained for some steps on another one."""
    torch.manual_seed(int(rng.integers(2**31)))
    network = nn.Sequential(nn.Linear(pool.x.shape[1], 32), nn.ReLU(), nn.Linear(32, num_classes))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    x, y = torch.as_tensor(teacher_pool.x).float(), torch.as_tensor(teacher_pool.y, dtype=torch.int64)
    for _ in range(steps):
        chosen = torch.randint(len(x), (128,))
        loss = nn.functional.cross_entropy(network(x[chosen]), y[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        return network(torch.as_tensor(pool.x).float()).double()


def draw_labels(chances: torch.Tensor, rng: np.random.Generator) -> NDArray[Any]:
    """A class (n,) for each row of probabilities (n, num_classes)."""
    thresholds = chances.cumsum(1).numpy()
    drawn = (rng.random((len(chances), 1)) * thresholds[:, -1:] > thresholds).sum(1)
    return np.minimum(drawn, chances.shape[1] - 1)
