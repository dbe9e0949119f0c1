"""A training step never synchronises with the host. The operators are checked here; tests/gpu checks on a GPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import TensorDataset

import adiw
from adiw import ADIW, Features, Indexed
from adiw.divergences import KL, MMD, Squared, Wasserstein
from adiw.matching import batches
from adiw.reweighting import weight_state

# Operators that make the host wait for their result or its shape.
SYNCHRONISING = {
    *("_local_scalar_dense", "item", "is_nonzero", "nonzero", "masked_select", "unique", "_unique2", "equal"),
    "lift_fresh",  # a number from the host as a tensor (x[0] = 1.0), which is then copied to the device
}


class NoSynchronisation(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        indices = args[1] if name.startswith("index") and isinstance(args[1], (list, tuple)) else []
        boolean_index = any(isinstance(i, Tensor) and i.dtype == torch.bool for i in indices)
        if name in SYNCHRONISING or boolean_index:
            raise AssertionError(f"the host would wait for {func}")
        return func(*args, **(kwargs or {}))


def not_checked(index: Tensor, count: int, size: int, repeats: bool) -> tuple[Tensor, bool]:
    """What ``check_index`` does on a GPU. On the CPU it reads the index, which is allowed there."""
    return index, False


DIVERGENCES = [
    None,  # the default
    KL(),
    KL(width="auto"),
    KL(update="optimum"),
    KL(update="euclidean"),
    MMD(),
    MMD(width="auto"),
    MMD(step="local"),
    Squared(),
    Wasserstein(),
    Wasserstein(scale="auto"),
    Wasserstein(critic="network", pretrain=1),
    Wasserstein(critic="network", pretrain=1, scale="auto"),
    *(kind() for kind in adiw.DIVERGENCES.values() if kind not in (KL, MMD, Squared, Wasserstein)),
    *(MMD(width=0.3, kernel=kernel, step="local") for kernel in ("laplace", "rational-quadratic", "linear")),
]


def train(monkeypatch: pytest.MonkeyPatch, divergence: Any, joined: bool = False, **settings: Any) -> None:
    monkeypatch.setattr(weight_state, "check_index", not_checked)
    monkeypatch.setattr(batches, "host_can_read", lambda values: False)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4))
    val_set: Any = TensorDataset(torch.randn(9, 3), torch.arange(9) % 4)
    if joined:
        val_set = Indexed([None] * 11, val_set).trusted
    settings = {
        "warmup_steps": 1,
        "val_batch": 6,
        "val_every": 1,
        "generator": Generator().manual_seed(0),
        **settings,
    }
    reweight = ADIW(model, nn.CrossEntropyLoss(reduction="none"), val_set, 20, divergence, repeats=True, **settings)
    x, y, index = torch.randn(3, 8, 3), torch.arange(24).view(3, 8) % 4, torch.randint(-1, 21, (3, 8))
    with NoSynchronisation():
        for step in range(3):
            reweight(model(x[step]), y[step], index[step], inputs=x[step]).backward()


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=str)
def test_losses(monkeypatch: pytest.MonkeyPatch, divergence: Any) -> None:
    train(monkeypatch, divergence)


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=str)
def test_features(monkeypatch: pytest.MonkeyPatch, divergence: Any) -> None:
    train(monkeypatch, divergence, transform=Features("1", class_prior=torch.ones(4)))


@pytest.mark.parametrize(
    "settings",
    [
        {"val_refresh": 2},
        {"val_every": 2},
        {"exact": True},
        {"mean_one": True},
        {"cap": 2.0},
        {"mean_one": True, "cap": 2.0},
        {"min_ess": 0.5},
        {"warmup_steps": None},
        {"steps": 3},
    ],
    ids=str,
)
@pytest.mark.parametrize("divergence", [MMD(), None], ids=["mmd", "default"])
def test_settings(monkeypatch: pytest.MonkeyPatch, divergence: Any, settings: dict[str, Any]) -> None:
    train(monkeypatch, divergence, **settings)


def test_trusted_samples_in_the_training_set(monkeypatch: pytest.MonkeyPatch) -> None:
    train(monkeypatch, None, joined=True)


@pytest.mark.parametrize("unit", ["sample", "element"])
@pytest.mark.parametrize("divergence", [None, KL(), MMD()], ids=str)
def test_streams_of_tokens(monkeypatch: pytest.MonkeyPatch, divergence: Any, unit: Any) -> None:
    monkeypatch.setattr(batches, "host_can_read", lambda values: False)
    torch.manual_seed(0)
    model = nn.Conv1d(3, 4, 1)
    tokens = torch.arange(200).view(40, 5) % 4
    tokens[::3, 2:] = -100
    x, val_set = torch.randn(24, 3, 5), TensorDataset(torch.randn(16, 3, 5), tokens[24:])
    reweight = ADIW(model, nn.CrossEntropyLoss(reduction="none"), val_set, None, divergence, unit=unit)
    with NoSynchronisation():
        for part, target in zip(x.split(8), tokens[:24].split(8), strict=True):
            reweight(model(part), target).backward()


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: x.sum().item(),
        lambda x: bool(x.any()),
        lambda x: x[x > 0],
        lambda x: x.nonzero(),
        lambda x: x[x.argmax()],
        lambda x: int(x[0]),
        lambda x: torch.equal(x, x),
        lambda x: x.unique(),
        pytest.param(
            lambda x: x.__setitem__(0, 1.0),
            marks=pytest.mark.skipif(torch.__version__ >= "2.15", reason="does not synchronise from 2.15 on"),
        ),
        lambda x: x.new_tensor([1.0]),
    ],
)
def test_every_synchronisation_is_detected(wait: Any) -> None:
    with pytest.raises(AssertionError, match="the host would wait"), NoSynchronisation():
        wait(torch.arange(4.0))
