"""Losses that are not finite are counted and reported, and do not affect the weights and gradients of others."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.utils.data import TensorDataset

from adiw import ADIW, Features
from adiw.divergences import KL, MMD, Squared, Wasserstein

NAN, INF = float("nan"), float("inf")
# Batches with and without a sample are comparable, except for the network: it draws random numbers for every sample.
COMPARABLE = [
    pytest.param(KL(), id="kl"),
    pytest.param(KL(width="auto"), id="auto"),
    pytest.param(MMD(width=0.3), id="mmd"),
    pytest.param(Squared(width=0.3, step_size=0.1), id="squared"),
    pytest.param(Wasserstein(), id="wasserstein"),
]
ALL = [*COMPARABLE, pytest.param(Wasserstein(critic="network", pretrain=0), id="network")]
VAL = torch.linspace(0.05, 1.0, 9)
TRAIN = torch.tensor([0.1, 4.0, 0.5, 0.9, 3.0, 0.3, 0.2])


class Echo(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


def make(divergence: Any, val: Tensor = VAL, **settings: Any) -> ADIW:
    settings = {"warmup_steps": 0, "generator": Generator().manual_seed(0), "cautious": False, **settings}
    return ADIW(
        Echo(),
        lambda outputs, targets: outputs,
        TensorDataset(val, val),
        10,
        divergence,
        **{"val_every": 1, **settings},
    )


def call(reweight: ADIW, values: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """(loss, weight of each sample in it)."""
    outputs = values.clone().requires_grad_()
    loss = reweight(outputs, None, index)
    loss.backward()
    assert outputs.grad is not None
    return loss.detach(), outputs.grad * len(values)


@pytest.mark.parametrize("nonfinite", [NAN, INF, -INF])
@pytest.mark.parametrize("divergence", COMPARABLE)
def test_a_nonfinite_loss_does_not_change_the_weights_of_others(divergence: Any, nonfinite: float) -> None:
    affected, clean = make(divergence), make(divergence)
    values = torch.cat([TRAIN[:3], torch.tensor([nonfinite]), TRAIN[3:]])
    index = torch.tensor([0, 1, 2, 9, 3, 4, 5, 6])
    for _ in range(3):
        loss, weights = call(affected, values, index)
        expected_loss, expected = call(clean, TRAIN, torch.arange(7))
        torch.testing.assert_close(weights[[0, 1, 2, 4, 5, 6, 7]], expected)
        assert weights[3] == 0
        torch.testing.assert_close(loss * 8, expected_loss * 7)  # the sum over the finite losses, divided by all n
    torch.testing.assert_close(affected.weights, clean.weights)
    assert affected.weights[9] == 1  # the nonfinite one was never estimated
    assert affected.weights.std() > 0.05


@pytest.mark.parametrize("divergence", ALL)
def test_every_divergence_stays_finite(divergence: Any) -> None:
    reweight = make(divergence)
    for step in range(4):
        values = TRAIN.clone()
        values[step] = (NAN, INF)[step % 2]
        _, weights = call(reweight, values, torch.arange(7))
        assert weights.isfinite().all()
        assert (weights[torch.arange(7) != step] > 0).any()
    state = [value for value in reweight.estimator.memory.values() if value.is_floating_point()]
    assert all(value.isfinite().all() for value in [*state, reweight.weights, reweight.weight_state.estimates])


@pytest.mark.parametrize("divergence", [MMD(width=0.3), Squared(width=0.3, step_size=0.1)])
def test_limits_exclude_nonfinite_losses(divergence: Any) -> None:
    affected, clean = make(divergence, mean_one=True), make(divergence, mean_one=True)
    call(affected, torch.cat([TRAIN, torch.tensor([INF])]), torch.arange(8))
    call(clean, TRAIN, torch.arange(7))
    torch.testing.assert_close(affected.weights[:7], clean.weights[:7])


@pytest.mark.parametrize("nonfinite", [NAN, INF])
@pytest.mark.parametrize("divergence", COMPARABLE)
def test_a_nonfinite_validation_loss_is_excluded(divergence: Any, nonfinite: float) -> None:
    affected = make(divergence, val=torch.cat([VAL, torch.tensor([nonfinite])]))
    clean = make(divergence)
    for _ in range(3):
        call(affected, TRAIN, torch.arange(7))
        call(clean, TRAIN, torch.arange(7))
    torch.testing.assert_close(affected.weights, clean.weights)
    with pytest.warns(UserWarning, match=r"3 validation losses so far were not finite.*validation samples: 9$"):
        assert affected.summary().nonfinite_val == 3


@pytest.mark.parametrize("divergence", ALL)
def test_without_finite_validation_losses_all_weights_are_zero(divergence: Any) -> None:
    reweight = make(divergence, val=torch.full((4,), NAN))
    loss, weights = call(reweight, TRAIN, torch.arange(7))
    assert loss == 0
    assert not weights.any()
    assert torch.equal(reweight.weights, torch.ones(10))


@pytest.mark.parametrize("limits", [{}, {"mean_one": True, "cap": 2.0, "min_ess": 0.5}])
@pytest.mark.parametrize("divergence", ALL)
def test_a_batch_without_finite_losses_has_a_loss_of_zero(divergence: Any, limits: dict[str, Any]) -> None:
    reweight = make(divergence, **limits)
    call(reweight, TRAIN, torch.arange(7))
    before = reweight.weights.clone()
    loss, weights = call(reweight, torch.tensor([NAN, INF, -INF]), torch.arange(3))
    assert loss == 0
    assert not weights.any()
    assert torch.equal(reweight.weights, before)
    call(reweight, TRAIN, torch.arange(7))  # training continues
    assert reweight.weights.isfinite().all()


def test_nonfinite_losses_are_excluded_in_the_warm_up() -> None:
    reweight = make(KL(), warmup_steps=1)
    loss, weights = call(reweight, torch.tensor([1.0, NAN, 2.0]), torch.arange(3))
    assert loss == 1
    assert weights.tolist() == [1.0, 0.0, 1.0]


def test_the_summary_counts_and_lists_nonfinite_losses() -> None:
    reweight = make(KL())
    call(reweight, torch.tensor([0.1, NAN, 0.3, INF]), torch.tensor([0, 4, 2, 7]))
    call(reweight, torch.tensor([0.1, NAN, 0.3]), torch.tensor([0, 4, 2]))
    with pytest.warns(UserWarning, match=r"^3 training losses so far were not finite.*training samples: 4, 7$"):
        summary = reweight.summary()
    assert (summary.nonfinite_train, summary.nonfinite_val) == (3, 0)
    fresh = make(KL())
    fresh.load_state_dict(reweight.state_dict())
    with pytest.warns(UserWarning, match="3 training losses"):  # the count is part of the state
        fresh.summary()


def test_finite_losses_cause_no_warning() -> None:
    reweight = make(KL())
    call(reweight, TRAIN, torch.arange(7))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert reweight.summary().nonfinite_train == 0


def regression(target: Tensor) -> tuple[nn.Module, Tensor]:
    """One step on three rows; the loss of a row is the squared error to its target."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
    val_set = TensorDataset(torch.randn(5, 2), torch.randn(5, 1))
    x = torch.randn(len(target), 2)

    def criterion(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).square().flatten(1).mean(1)

    reweight = ADIW(model, criterion, val_set, 10, MMD(width=1.0), warmup_steps=0)
    loss = reweight(model(x), target[:, None], torch.arange(len(target)))
    loss.backward()
    return model, loss.detach()


@pytest.mark.parametrize("nonfinite", [INF, NAN])
def test_model_gradients_are_those_of_the_finite_losses(nonfinite: float) -> None:
    model, loss = regression(torch.tensor([0.5, -0.5, 0.1, nonfinite]))
    finite, expected = regression(torch.tensor([0.5, -0.5, 0.1]))
    torch.testing.assert_close(loss * 4, expected * 3)
    for ours, theirs in zip(model.parameters(), finite.parameters(), strict=True):
        assert ours.grad is not None
        assert ours.grad.abs().sum() > 0
        torch.testing.assert_close(ours.grad * 4, theirs.grad * 3)  # type: ignore[operator]


def test_model_gradients_stay_finite_under_cross_entropy_with_an_infinite_logit() -> None:
    torch.manual_seed(0)
    model, mask = nn.Linear(2, 3), torch.zeros(4, 3)
    mask[2, 1] = -INF  # the label is a masked class
    x, y = torch.randn(4, 2), torch.tensor([0, 1, 1, 2])
    val_set = TensorDataset(torch.randn(5, 2), torch.randint(3, (5,)))
    reweight = ADIW(model, nn.CrossEntropyLoss(reduction="none"), val_set, 10, warmup_steps=0)
    loss = reweight(model(x) + mask, y, torch.arange(4))
    loss.backward()
    assert loss.isfinite()
    assert model.weight.grad is not None
    assert model.weight.grad.isfinite().all()
    assert model.weight.grad.abs().sum() > 0


def test_model_gradients_stay_finite_when_the_outputs_are_a_mapping() -> None:
    model = nn.Linear(2, 1)
    val_set = TensorDataset(torch.randn(5, 2), torch.randn(5))
    reweight = ADIW(
        model,
        lambda outputs, targets: (outputs["y"][:, 0] - targets).square(),
        val_set,
        10,
        forward=lambda model, batch: ({"y": model(batch[0])}, batch[1]),
        warmup_steps=0,
    )
    reweight({"y": model(torch.randn(3, 2))}, torch.tensor([0.5, INF, 0.1]), torch.arange(3)).backward()
    assert model.weight.grad is not None
    assert model.weight.grad.isfinite().all()


def with_features(divergence: Any) -> ADIW:
    val = torch.randn(8, 3, generator=Generator().manual_seed(1))
    return ADIW(
        Echo(),
        lambda outputs, targets: outputs[:, 0],
        TensorDataset(val, torch.arange(8) % 2),
        10,
        divergence,
        transform=Features(num_classes=2),
        forward=lambda model, batch: (batch[0], batch[1], batch[0]),
        warmup_steps=0,
        generator=Generator().manual_seed(0),
    )


@pytest.mark.parametrize("divergence", ALL)
def test_nonfinite_features_keep_their_weights_and_do_not_change_others(divergence: Any) -> None:
    reweight, clean = with_features(divergence), with_features(divergence)
    features = torch.randn(6, 3, generator=Generator().manual_seed(2))
    features[4, 1] = NAN
    outputs, y, finite = torch.ones(6, 1), torch.tensor([0, 1, 0, 1, 0, 1]), torch.tensor([0, 1, 2, 3, 5])
    loss = reweight(outputs, y, torch.arange(6), features=features)
    assert loss.isfinite()
    assert reweight.weights.isfinite().all()
    assert reweight.weights[4] == 1
    if not isinstance(divergence, Wasserstein):  # vectors need the network, which draws other random numbers
        clean(outputs[finite], y[finite], finite, features=features[finite])
        torch.testing.assert_close(reweight.weights, clean.weights)


@pytest.mark.parametrize("divergence", ALL)
def test_a_stored_nan_counts_as_not_estimated(divergence: Any) -> None:
    """A loaded state may contain such values."""
    reweight, fresh = make(divergence), make(divergence)
    reweight.weight_state.estimates[3] = NAN
    if hasattr(reweight, "coefficients"):
        reweight.estimator.coefficients[3] = NAN
    index = torch.arange(7)
    loss, weights = call(reweight, TRAIN, index)
    expected, _ = call(fresh, TRAIN, index)
    torch.testing.assert_close(loss, expected)
    assert bool(weights.isfinite().all())
    assert bool(reweight.weights.isfinite().all())
