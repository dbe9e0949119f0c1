"""The staged step: it trains exactly as the ordinary step with the paper's separate pass, stage by stage."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.optim import SGD
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import TensorDataset

from adiw import ADIW, Features
from adiw.baselines import DIW
from adiw.divergences import KL, MMD, Wasserstein
from adiw.engine.loop import train_step
from adiw.engine.train_loader import Batch, DatasetLoader
from adiw.engine.train_loader import batches as batches_of
from paper.profiler.stages import STAGES, StagedStep, one_loader, one_loader_per_batch

CPU, CLASSES, STEPS = torch.device("cpu"), 3, 9
CRITERION = nn.CrossEntropyLoss(reduction="none")
EXACT: dict[str, Any] = {"exact": True, "val_every": 1, "warmup_steps": 2, "cautious": False}
METHODS: dict[str, Callable[[nn.Module, Any, int], ADIW | DIW]] = {
    "mmd": lambda *basics: ADIW(*weighted(basics), MMD(width=0.3), **EXACT),
    "kl": lambda *basics: ADIW(*weighted(basics), KL(), **EXACT),
    "wasserstein": lambda *basics: ADIW(*weighted(basics), Wasserstein(), **EXACT),
    "features": lambda *basics: ADIW(*weighted(basics), KL(), **EXACT, transform=features()),
    "diw": lambda *basics: DIW(*weighted(basics), warmup_steps=2),
}


def features() -> Features:
    return Features("2", num_classes=CLASSES)


def weighted(basics: tuple[Any, ...]) -> tuple[Any, ...]:
    model, val_set, num_train = basics
    return model, CRITERION, val_set, num_train


def samples(count: int, seed: int) -> TensorDataset:
    random = Generator().manual_seed(seed)
    return TensorDataset(torch.randn(count, 5, generator=random), torch.arange(count) % CLASSES)


def network() -> nn.Module:
    """Without batch norm: in the ordinary step the separate pass comes after the training pass, with running
    statistics that have seen the batch; here it comes before."""
    torch.manual_seed(0)
    layers = nn.Linear(5, 8), nn.LayerNorm(8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, CLASSES)
    return nn.Sequential(*layers)


def optimizer_of(model: nn.Module) -> SGD:
    return SGD(model.parameters(), lr=0.2, momentum=0.9)


def feed_of(dataset: TensorDataset, batch: int) -> DatasetLoader:
    return DatasetLoader(dataset, batch, seed=0, device=CPU, workers=0)


def staged(
    name: str, model: nn.Module, val_set: TensorDataset, num_train: int, clip: float | None = None
) -> StagedStep:
    reweight = METHODS[name](model, val_set, num_train)
    fetch_val = one_loader(partial(batches_of, feed_of(val_set, 12)))
    return StagedStep(model, optimizer_of(model), reweight, fetch_val, clip=clip)


def several_epochs(feed: DatasetLoader) -> Iterator[Batch]:
    for number in range(STEPS):
        yield from batches_of(feed, number)


@pytest.mark.parametrize("clip", [None, 0.3])
@pytest.mark.parametrize("name", METHODS)
def test_it_is_the_ordinary_step_with_the_separate_pass(name: str, clip: float | None) -> None:
    train_set, val_set = samples(40, seed=1), samples(12, seed=2)
    model = network()
    twin = copy.deepcopy(model)
    step, reweight = staged(name, model, val_set, 40, clip), METHODS[name](twin, val_set, 40)
    optimizer = optimizer_of(twin)
    batches, again = several_epochs(feed_of(train_set, 8)), several_epochs(feed_of(train_set, 8))
    for number in range(STEPS):
        torch.manual_seed(number)  # of the dropout
        loss = step(batches)
        torch.manual_seed(number)
        expected = train_step(twin, reweight, optimizer, *next(again), clip=clip)
        # All validation samples are in every batch, in another order: sums differ in their last bits.
        torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(step.reweight.weights, reweight.weights, rtol=1e-3, atol=1e-3)
    assert (reweight.weights != 1).any()
    for ours, theirs in zip(model.state_dict().values(), twin.state_dict().values(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


def test_every_stage_is_recorded_once_in_a_step_and_nothing_happens_outside_of_them() -> None:
    train_set, val_set = samples(40, seed=1), samples(12, seed=2)
    step, batches = staged("kl", network(), val_set, 40), batches_of(feed_of(train_set, 8), 0)
    step(batches)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        step(batches)
    events = list(profiler.events() or [])
    assert sorted(event.name for event in events if event.name in STAGES) == sorted(STAGES)
    tops = [event for event in events if event.cpu_parent is None and event.name.startswith("aten::")]
    assert [event.name for event in tops] == ["aten::detach"]  # of the loss that is returned


def test_a_sample_that_is_not_finite_weighs_nothing_and_spoils_nothing() -> None:
    train_set, val_set = samples(8, seed=1), samples(12, seed=2)
    model = nn.Linear(5, CLASSES)
    nan_loss = lambda outputs, y: torch.where(y == 2, torch.nan, CRITERION(outputs, y))  # noqa: E731
    reweight = ADIW(model, nan_loss, val_set, 8, warmup_steps=0)
    step = StagedStep(model, optimizer_of(model), reweight, one_loader(partial(batches_of, feed_of(val_set, 12))))
    assert step(batches_of(feed_of(train_set, 8), 0)).isfinite()
    assert all(parameter.isfinite().all() for parameter in model.parameters())


class Counting:
    """Epochs of three batches, which counts the loaders that were made and the batches that were taken."""

    def __init__(self) -> None:
        self.loaders: list[int] = []
        self.taken = 0

    def __call__(self, number: int) -> Iterator[Batch]:
        self.loaders.append(number)
        for at in range(3):
            self.taken += 1
            yield tensor(number), tensor(at), tensor(0)


def tensor(value: int) -> Tensor:
    return torch.tensor(value)


def test_one_loader_is_made_again_when_it_is_exhausted() -> None:
    epochs = Counting()
    fetch = one_loader(epochs)
    assert [(int(x), int(y)) for x, y, _ in (fetch() for _ in range(5))] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    assert epochs.loaders == [0, 1]


def test_one_loader_per_batch_has_a_new_order_each_time() -> None:
    epochs = Counting()
    fetch = one_loader_per_batch(epochs)
    assert [(int(x), int(y)) for x, y, _ in (fetch() for _ in range(3))] == [(0, 0), (1, 0), (2, 0)]
    assert epochs.taken == 3


def test_the_end_of_the_batches_is_not_hidden() -> None:
    step = staged("kl", network(), samples(12, seed=2), 40)
    with pytest.raises(StopIteration):
        step(iter(()))
