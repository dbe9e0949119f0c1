"""On a CPU the host checks whether all samples are included and then skips masks. The results do not change."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.testing import assert_close
from torch.utils.data import TensorDataset

import adiw
from adiw import ADIW
from adiw.baselines import DIW
from adiw.divergences import KL, MMD, Squared, Wasserstein
from adiw.matching import batches
from adiw.matching.batches import MatchedBatches, finite_mask, match, none_if_true

DIVERGENCES = [
    KL(),
    KL(width="auto"),
    KL(update="optimum"),
    KL(update="euclidean"),
    MMD(width=0.3),
    MMD(width="auto", step="local"),
    Squared(width=0.3, step_size=0.1),
    Wasserstein(),
    Wasserstein(scale="auto"),
    Wasserstein(critic="network", pretrain=1),
    *(kind() for kind in adiw.DIVERGENCES.values() if kind not in (KL, MMD, Squared, Wasserstein)),
    *(MMD(width=0.3, kernel=kernel, step="local") for kernel in ("laplace", "rational-quadratic", "linear")),
]
SETTINGS: list[dict[str, Any]] = [
    {},
    {"warmup_steps": None},
    {"val_refresh": 2, "val_every": 1},
    {"mean_one": True, "cap": 2.0},
    {"steps": 3},
]


def train(method: Any, breaks: bool) -> tuple[list[Tensor], dict[str, Any]]:
    """The losses of ten steps over twelve samples, and the state after them."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4))
    val_set = TensorDataset(torch.randn(9, 3), torch.arange(9) % 4)
    reweight = method(model, nn.CrossEntropyLoss(reduction="none"), val_set, 12)
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    x, y = torch.randn(12, 3), torch.arange(12) % 4
    losses = []
    for step in range(10):
        index = (torch.arange(6) + 5 * step) % 12
        inputs = x[index]
        if breaks and step == 6:
            inputs[5] = math.nan
        loss = reweight(model(inputs), y[index], index, inputs=inputs)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, reweight.state_dict()


def assert_masks_change_nothing(monkeypatch: pytest.MonkeyPatch, method: Any, breaks: bool) -> None:
    losses, state = train(method, breaks)
    monkeypatch.setattr(batches, "host_can_read", lambda values: False)
    expected, of_a_gpu = train(method, breaks)
    assert_close(losses, expected)
    state, of_a_gpu = flat(state), flat(of_a_gpu)
    assert state.keys() == of_a_gpu.keys()
    for key, value in of_a_gpu.items():
        assert_close(state[key], value, equal_nan=True, msg=lambda text, key=key: f"{key}: {text}")


def flat(state: dict[str, Any]) -> dict[str, Tensor]:
    """The tensors of a nested state."""
    found = {}
    for key, value in state.items():
        if isinstance(value, dict):
            found |= {f"{key}/{name}": part for name, part in flat(value).items()}
        elif isinstance(value, Tensor):
            found[key] = value
    return found


@pytest.mark.parametrize("breaks", [False, True])
@pytest.mark.parametrize("divergence", DIVERGENCES, ids=str)
def test_every_divergence(monkeypatch: pytest.MonkeyPatch, divergence: Any, breaks: bool) -> None:
    def method(*given: Any) -> ADIW:
        return ADIW(*given, divergence, val_batch=6, warmup_steps=2, generator=Generator().manual_seed(0))

    assert_masks_change_nothing(monkeypatch, method, breaks)


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_every_setting(monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], repeats: bool) -> None:
    def method(*given: Any) -> ADIW:
        generator = Generator().manual_seed(0)
        return ADIW(*given, **{"val_batch": 6, "repeats": repeats, "generator": generator, **settings})

    assert_masks_change_nothing(monkeypatch, method, breaks=False)


@pytest.mark.parametrize("breaks", [False, True])
def test_diw(monkeypatch: pytest.MonkeyPatch, breaks: bool) -> None:
    assert_masks_change_nothing(monkeypatch, lambda *given: DIW(*given, val_batch=6, warmup_steps=2), breaks)


def test_there_is_no_mask_if_all_samples_are_included() -> None:
    train, val = torch.tensor([[0.1], [0.2]]), torch.tensor([[0.3]])
    assert match(train, val).membership_train is None
    assert match(train, val).membership_val is None
    nonfinite = torch.tensor([[math.nan]])
    for one, other in ((torch.cat([train, nonfinite]), val), (train, torch.cat([val, nonfinite]))):
        found = match(one, other)
        membership_train, membership_val = found.membership_train, found.membership_val
        assert membership_train is not None
        assert membership_val is not None
        assert membership_train.tolist() == [True, True, False][: len(one)]
        assert membership_val.tolist() == [True, False][: len(other)]


def test_no_mask_equals_a_mask_of_true() -> None:
    z_train, z_val = torch.rand(4, 1), torch.rand(3, 1)
    found, masked = match(z_train, z_val), MatchedBatches(z_train, z_val, torch.ones(4).bool(), torch.ones(3).bool())
    for name in ("group_train", "group_val", "included_train", "included_val", "num_train", "num_val", "share_val"):
        assert_close(getattr(found, name), getattr(masked, name))
    for sides in (("train", "train"), ("train", "val"), ("val", "train")):
        assert torch.equal(found.same(*sides), masked.same(*sides))
    assert_close(found.sum_train(z_train[:, 0]), masked.sum_train(z_train[:, 0]))
    assert_close(found.sum_val(z_val[:, 0]), masked.sum_val(z_val[:, 0]))


def test_values_whose_sum_overflows_are_checked_one_by_one() -> None:
    large = torch.full((4,), 3e38)
    assert finite_mask(large) is not None
    assert bool(finite_mask(large).all())  # type: ignore[union-attr]


def test_the_host_reads_nothing_from_another_device() -> None:
    """The meta device simulates a GPU: its tensors have no values. test_adiw_compiled tests compiled steps."""
    assert finite_mask(torch.zeros(3, device="meta")).shape == (3,)  # type: ignore[union-attr]
    assert none_if_true(torch.ones((), dtype=torch.bool, device="meta")) is not None
    assert none_if_true(torch.tensor(True)) is None
    assert none_if_true(torch.tensor(False)) is not None


def test_a_divergence_cannot_change_the_tensors_of_the_method() -> None:
    z_train, z_val = torch.rand(4, 1), torch.rand(3, 1)
    before = z_train.clone(), z_val.clone()
    found = match(z_train, z_val)
    found.z_train.zero_()
    found.z_val.zero_()
    assert torch.equal(z_train, before[0])
    assert torch.equal(z_val, before[1])
