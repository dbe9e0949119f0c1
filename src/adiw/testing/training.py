"""Short trainings: a divergence's defaults must learn, on losses of two kinds and on features."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.utils.data import TensorDataset

from adiw.divergences import Divergence, capabilities
from adiw.reweighting.adiw import ADIW
from adiw.reweighting.transforms import Features

EPOCHS, BATCH = 12, 64
MEAN = (0.1, 5.0)  # of the weights at the end: it multiplies the learning rate, and should be near one


@dataclass(frozen=True)
class Task:
    """Training data of which a part is wrong, correct trusted and test data, and a network.

    Attributes:
        criterion: one loss per sample.
        error: the mean error of the outputs for the test targets.
        allowed: an error that weights of one stay above, and that a divergence must reach.
    """

    train: tuple[Tensor, Tensor]
    wrong: Tensor  # (n,) booleans
    trusted: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    outputs: int
    criterion: nn.Module
    error: Callable[[Tensor, Tensor], Tensor]
    allowed: float

    def network(self) -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(self.train[0].shape[1], 32), nn.ReLU(), nn.Linear(32, self.outputs))


def wrong_labels() -> Task:
    """Three classes of Gaussian points in the plane; 40% of the labels are another class."""
    random = Generator().manual_seed(0)
    centres = torch.tensor([[0.0, 2.0], [-1.7, -1.0], [1.7, -1.0]])

    def draw(count: int) -> tuple[Tensor, Tensor]:
        y = torch.randint(3, (count,), generator=random)
        return centres[y] + 0.6 * torch.randn(count, 2, generator=random), y

    (x, y), trusted, test = draw(640), draw(60), draw(300)
    wrong = torch.rand(640, generator=random) < 0.4
    given = torch.where(wrong, (y + 1) % 3, y)  # to the next class: the hardest for weights of one
    criterion = nn.CrossEntropyLoss(reduction="none")
    return Task(
        (x, given), wrong, trusted, test, 3, criterion, lambda out, y: (out.argmax(1) != y).float().mean(), 0.2
    )


def wrong_targets() -> Task:
    """A linear function of two numbers; 30% of the targets are three too large."""
    random = Generator().manual_seed(1)

    def draw(count: int) -> tuple[Tensor, Tensor]:
        x = torch.randn(count, 2, generator=random)
        return x, x[:, 0] - 0.5 * x[:, 1] + 0.1 * torch.randn(count, generator=random)

    (x, y), trusted, test = draw(640), draw(60), draw(300)
    wrong = torch.rand(640, generator=random) < 0.3
    loss = SquaredError()
    return Task((x, y + 3 * wrong), wrong, trusted, test, 1, loss, lambda *pair: loss(*pair).mean().sqrt(), 0.7)


class SquaredError(nn.Module):
    """(prediction - target)^2 of each sample, (n,)."""

    def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs[:, 0] - targets).square()


TASKS = {"wrong labels": wrong_labels, "wrong targets": wrong_targets}


def train(task: Task, divergence: Divergence | None, transform: Any = "loss") -> tuple[float, Tensor]:
    """The test error and the weights (n,) after a few epochs; None trains with weights of one."""
    network, n = task.network(), len(task.wrong)
    optimizer, random = torch.optim.Adam(network.parameters(), 0.01), Generator().manual_seed(0)
    x, y = task.train
    reweight = None
    if divergence is not None:
        trusted = TensorDataset(*task.trusted)
        settings: dict[str, Any] = {"transform": transform, "generator": Generator().manual_seed(0), "val_every": 1}
        reweight = ADIW(network, task.criterion, trusted, n, divergence, **settings)
    for _ in range(EPOCHS):
        for index in torch.randperm(n, generator=random).split(BATCH):
            outputs = network(x[index])
            loss = (
                task.criterion(outputs, y[index]).mean() if reweight is None else reweight(outputs, y[index], index)
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        error = float(task.error(network(task.test[0]), task.test[1]))
    return error, torch.ones(n) if reweight is None else reweight.weights.clone()


def check_weights(weights: Tensor) -> None:
    """Finite weights, none of them negative, whose mean changes the learning rate by a bounded factor."""
    assert bool((weights.isfinite() & (weights >= 0)).all()), "weights are not finite or negative"
    mean, (least, most) = float(weights.mean()), MEAN
    assert least < mean < most, (
        f"mean weight {mean:.3g} after training, expected from {least} to {most}: a smaller step_size, step_scale, "
        "or a feasible set with mean one keeps it near one"
    )


def check_training(divergence: Divergence, task: Task) -> None:
    """Matching losses lowers the weights of wrong samples, and the error to what the task allows."""
    error, weights = train(task, divergence)
    check_weights(weights)
    right, wrong = float(weights[~task.wrong].mean()), float(weights[task.wrong].mean())
    assert wrong < 0.7 * right, (
        f"mean weight {wrong:.3f} of wrong samples after training, expected below {0.7 * right:.3f}, which is 0.7 of "
        "that of right ones: a larger step_size separates them in fewer steps"
    )
    assert math.isfinite(error), "the network has diverged"
    assert error < task.allowed, f"error {error:.3f} after training, expected below {task.allowed}"


def check_training_on_features(divergence: Divergence) -> None:
    """Matching a hidden layer class by class does not break the training on right labels."""
    if "features" not in capabilities(type(divergence)).z:
        return
    task = wrong_labels()
    x, y = (part[~task.wrong] for part in task.train)
    right = replace(task, train=(x, y), wrong=task.wrong[~task.wrong])
    error, weights = train(right, divergence, Features("1", num_classes=3))
    check_weights(weights)
    assert error < 0.1, f"error {error:.3f} after training on features, expected below 0.1"
