"""A resumed run equals an uninterrupted one bit for bit."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.utils.data import TensorDataset

from adiw import ADIW, DIVERGENCES, Features, Indexed
from adiw.divergences import KL, MMD, Squared, Wasserstein

CROSS_ENTROPY = nn.CrossEntropyLoss(reduction="none")
NUM_TRAIN, BATCH = 40, 12
NETWORK = Wasserstein(critic="network", pretrain=2, learning_rate=1e-2)

_data = Generator().manual_seed(0)
X, Y = torch.randn(NUM_TRAIN, 5, generator=_data), torch.randint(3, (NUM_TRAIN,), generator=_data)
VAL = TensorDataset(torch.randn(13, 5, generator=_data), torch.randint(3, (13,), generator=_data))
PRIOR = torch.tensor([0.5, 1.0, 1.5])


def network(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))


# Trusted are the samples with the smallest losses at first, so that there is evidence of wrong labels.
JOINED = Indexed(TensorDataset(X, Y), CROSS_ENTROPY(network(0)(X), Y).argsort()[:13]).trusted

CASES: dict[str, Callable[[], dict[str, Any]]] = {
    **{name: partial(dict, divergence=kind()) for name, kind in DIVERGENCES.items()},
    "mmd": lambda: {"divergence": MMD(width=0.3)},
    "squared": lambda: {"divergence": Squared(width=0.3, step_size=0.1)},
    "network": lambda: {"divergence": NETWORK},
    "partial refresh": lambda: {"divergence": KL(), "val_refresh": 3},
    "every third step": lambda: {"divergence": MMD(width=0.3), "val_every": 3},
    "streamed": lambda: {"divergence": MMD(width=0.3), "cache_bytes": 0, "val_refresh": 3},
    "limits": lambda: {"divergence": MMD(width=0.3), "mean_one": True, "cap": 1.3, "min_ess": 0.9},
    "features": lambda: {"divergence": KL(), "transform": Features("1", class_prior=PRIOR)},
    "features and network": lambda: {"divergence": NETWORK, "transform": Features("1", num_classes=3), "steps": 2},
    "default": dict,
    "default, trusted samples in the training set": lambda: {"val_set": JOINED},
    "default, every third step, limits": lambda: {"val_refresh": 3, "val_every": 3, "mean_one": True, "cap": 1.3},
    "exact": lambda: {"divergence": KL(width="auto"), "exact": True},
}


@dataclass
class Run:
    """A model in training, with everything that a checkpoint contains."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    reweight: ADIW

    def train(self, steps: range) -> list[Tensor]:
        losses = []
        for step in steps:
            index = torch.randperm(NUM_TRAIN, generator=Generator().manual_seed(step))[:BATCH]
            loss = self.reweight(self.model(X[index]), Y[index], index, inputs=X[index])
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            losses.append(loss.detach())
        return losses

    def parts(self) -> tuple[nn.Module, torch.optim.Optimizer, ADIW]:
        return self.model, self.optimizer, self.reweight

    def save(self) -> io.BytesIO:
        file = io.BytesIO()
        torch.save([part.state_dict() for part in self.parts()], file)
        file.seek(0)
        return file

    def load(self, file: io.BytesIO) -> None:
        for part, state in zip(self.parts(), torch.load(file, weights_only=True), strict=True):
            part.load_state_dict(state)


def start(settings: dict[str, Any], seed: int = 0) -> Run:
    model = network(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    generator = Generator().manual_seed(seed)
    settings = {"val_batch": 8, "warmup_steps": 1, "generator": generator, "val_set": VAL, **settings}
    settings = {"cautious": False, **settings}
    return Run(model, optimizer, ADIW(model, CROSS_ENTROPY, num_train=NUM_TRAIN, **settings))


def flatten(state: Any) -> list[Any]:
    if isinstance(state, dict):
        return [leaf for key in sorted(state, key=str) for leaf in (str(key), *flatten(state[key]))]
    if isinstance(state, (list, tuple)):
        return [leaf for value in state for leaf in flatten(value)]
    return [state]


def assert_identical(left: Any, right: Any) -> None:
    """Nested states are equal bit for bit; nan equals nan."""
    for a, b in zip(flatten(left), flatten(right), strict=True):
        if isinstance(a, Tensor):
            torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)
        else:
            assert a == b


@pytest.mark.parametrize("saved_at", [0, 5])
@pytest.mark.parametrize("name", CASES)
def test_a_resumed_run_equals_an_uninterrupted_one(name: str, saved_at: int) -> None:
    straight = start(CASES[name]())
    losses = straight.train(range(11))
    first = start(CASES[name]())
    first.train(range(saved_at))
    file = first.save()
    second = start(CASES[name](), seed=5)  # everything else differs
    second.train(range(20, 23))
    second.load(file)
    assert_identical(second.train(range(saved_at, 11)), losses[saved_at:])
    for ours, theirs in zip(second.parts(), straight.parts(), strict=True):
        assert_identical(ours.state_dict(), theirs.state_dict())
    assert straight.reweight.weights.std() > 1e-3


def test_the_default_is_resumed_where_there_is_evidence() -> None:
    run = start({"val_set": JOINED})
    run.train(range(11))
    assert run.reweight.ranks is not None
    assert run.reweight.ranks.evidence > 0
    assert run.reweight.ranks.rank_weights.std() > 0.1


def test_the_generator_is_part_of_the_state() -> None:
    run = start(CASES["network"]())
    run.train(range(5))
    file = run.save()
    other = start(CASES["network"](), seed=5)
    other.load(file)
    draws = [part.randomness.on(torch.device("cpu")) for part in (run.reweight, other.reweight)]
    assert torch.equal(torch.rand(3, generator=draws[0]), torch.rand(3, generator=draws[1]))


def test_double_precision_is_kept() -> None:
    run = start(CASES["kl"]())
    run.reweight.double()
    run.train(range(5))
    other = start(CASES["kl"]())
    other.reweight.double()
    other.load(run.save())
    assert other.reweight.weights.dtype == torch.float64
    assert torch.equal(other.reweight.weights, run.reweight.weights)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"divergence": MMD(width=0.3)}, "MMD"),
        ({"divergence": KL(width=0.7)}, "width=0.7"),
        ({"divergence": KL(), "steps": 2}, "steps=2"),
        ({"divergence": KL(), "exact": True}, "exact=True"),
        ({"divergence": KL(), "cap": 2.0}, "cap=2.0"),
        ({"divergence": KL(), "transform": Features("1")}, "Features"),
    ],
)
def test_a_state_with_other_settings_is_an_error(settings: dict[str, Any], named: str) -> None:
    state = start({"divergence": KL()}).reweight.state_dict()
    with pytest.raises(
        ValueError, match=rf"this state was made with ADIW\(KL.*but this is .*{named}.*the same settings"
    ):
        start(settings).reweight.load_state_dict(state)


def test_a_state_of_another_training_set_is_an_error() -> None:
    state = start({"divergence": KL()}).reweight.state_dict()
    fresh = ADIW(
        nn.Linear(5, 3), CROSS_ENTROPY, VAL, NUM_TRAIN + 1, KL(), val_batch=8, warmup_steps=1, cautious=False
    )
    expected = rf"{NUM_TRAIN} training samples, but there are {NUM_TRAIN + 1} now: .*the same training set"
    with pytest.raises(ValueError, match=expected):
        fresh.load_state_dict(state)


@pytest.mark.parametrize("other", [{"val_refresh": 3}, {"val_batch": 4}, {"warmup_steps": 9}])
def test_a_state_with_another_stream_or_warm_up_is_an_error(other: dict[str, int]) -> None:
    state = start({"divergence": KL()}).reweight.state_dict()
    with pytest.raises(ValueError, match="the same settings"):
        start({"divergence": KL(), **other}).reweight.load_state_dict(state)
