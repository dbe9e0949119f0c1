"""The summary and the theorem's quantities against direct computations."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator, Tensor, nn
from torch.utils.data import TensorDataset

from adiw import ADIW, Summary
from adiw.divergences import KL, MMD, Squared, Wasserstein
from adiw.reweighting.summary import name_indices, summarise
from tests.oracles import reference as ref

VAL = torch.linspace(0.05, 1.0, 7, dtype=torch.float64)
TRAIN = torch.tensor([0.1, 4.0, 0.5, 0.9, 3.0], dtype=torch.float64)


class Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.0, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * x


def make(divergence: Any, num_train: int = 8, **settings: Any) -> tuple[nn.Module, ADIW]:
    model = Scale()
    settings = {"warmup_steps": 0, "generator": Generator().manual_seed(0), "cautious": False, **settings}
    val_set = TensorDataset(VAL, VAL)
    return model, ADIW(model, lambda o, t: o, val_set, num_train, divergence, **{"val_every": 1, **settings}).double()


def test_before_the_first_step() -> None:
    summary = make(KL(), cap=2.0)[1].summary()
    assert math.isnan(summary.objective)
    assert asdict(summary) | {"objective": 0} == {
        "steps": 0,
        "ess": 8.0,
        "mean": 1.0,
        "max": 1.0,
        "share_zero": 0.0,
        "share_at_bound": 0.0,
        "objective": 0,
        "nonfinite_train": 0,
        "nonfinite_val": 0,
        "alarms": (),
        "groups": None,
    }


def test_the_fields_are_those_of_the_weights_of_the_whole_training_set() -> None:
    weights = torch.tensor([0.0, 0.0, 0.5, 1.5, 3.0, 3.0])
    parts = summarise(weights, 3.0, None)
    assert parts["ess"] == pytest.approx(8.0**2 / (0.25 + 2.25 + 18))
    assert parts["mean"] == pytest.approx(8 / 6)
    assert parts["max"] == 3
    assert parts["share_zero"] == pytest.approx(2 / 6)
    assert parts["share_at_bound"] == pytest.approx(2 / 6)
    assert math.isnan(summarise(weights, None, None)["share_at_bound"])
    empty = summarise(torch.zeros(3), None, None)
    assert (empty["ess"], empty["share_zero"]) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("divergence", "settings", "bound"),
    [
        (MMD(width=0.6, upper=1.05), {}, 1.05),
        (MMD(width=0.6, upper=1.05), {"cap": 1.02}, 1.02),
        (MMD(width=0.6, upper=1.05), {"cap": 3.0}, 1.05),
        (KL(), {"cap": 1.02}, 1.02),
    ],
)
@pytest.mark.filterwarnings("ignore:weights at their bound")
def test_the_bound_is_the_smaller_of_cap_and_upper(divergence: Any, settings: dict[str, float], bound: float) -> None:
    model, reweight = make(divergence, **settings)
    for _ in range(4):
        reweight(model(TRAIN), None, torch.arange(5))
    share = float((reweight.weights >= bound - 1e-9).double().mean())
    assert reweight.summary().share_at_bound == pytest.approx(share)
    assert 0 < share < 1


def test_a_run() -> None:
    model, reweight = make(MMD(width=0.6, step_size=0.05))
    for _ in range(3):
        reweight(model(TRAIN), None, torch.arange(5))
    summary, weights = reweight.summary(), reweight.weights.numpy()
    assert summary.steps == 3
    assert summary.ess == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    assert summary.mean == pytest.approx(weights.mean())
    assert summary.max == pytest.approx(weights.max())
    objective = ref.mmd_objective(weights[:5], TRAIN.numpy()[:, None], VAL.numpy()[:, None], 0.6)
    assert summary.objective == pytest.approx(objective)
    assert "step 3" in str(summary)
    assert f"{summary.ess:.0f}" in str(summary)


def test_the_objective_of_a_parametric_divergence() -> None:
    model, reweight = make(KL(width=0.6))
    reweight(model(TRAIN), None, torch.arange(5))
    beta = reweight.estimator.coefficients.numpy()
    expected = ref.kl_objective(beta, TRAIN.numpy()[:, None], VAL.numpy()[:, None], 0.6)
    assert reweight.summary().objective == pytest.approx(expected)


def test_only_the_first_indices_are_listed() -> None:
    assert name_indices(torch.tensor([0, 3, 0, 1])) == "1, 3"
    assert name_indices(torch.ones(9), shown=3) == "0, 1, 2 and 6 more"
    assert name_indices(torch.zeros(4)) == ""


def gradient_steps(divergence: Any, params: np.ndarray, steps: int) -> list[np.ndarray]:
    """eta grad_W J at each inner step, by the oracle's formulas."""
    z, v = TRAIN.numpy()[:, None], VAL.numpy()[:, None]
    taken = []
    for _ in range(steps):
        if isinstance(divergence, MMD):
            step = divergence.step_size * ref.mmd_gradient(params, z, v, 0.6)
            if divergence.step == "local":  # the local step is divided by the number of training samples nearby
                step = step / np.exp(-((z - z.T) ** 2) / (2 * 0.6**2)).sum(1)
            slack = (np.sqrt(5) - 1) / np.sqrt(5)
            params = ref.project_qp(params - step, divergence.upper, np.full(5, 0.2), 1 - slack, 1 + slack)
        elif isinstance(divergence, KL):
            step = divergence.step_size * ref.kl_gradient(params, z, v, 0.6)
            params = np.maximum(params - step, 0)
            params = params / (params @ ref.psi_bar(z, v, 0.6))
        else:
            step = divergence.step_size * ref.squared_gradient(params, z, v, 0.6, divergence.penalty)
            params = np.maximum(params - step, 0)
        taken.append(step)
    return taken


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize(
    "divergence",
    [
        MMD(width=0.6, step_size=0.05),
        MMD(width=0.6, step_size=0.5),  # a large step, so that the gradient grows from one inner step to the next
        MMD(width=0.6, step_size=0.5, step="local"),
        KL(width=0.6),
        Squared(width=0.6, step_size=0.2),
    ],
    ids=str,
)
def test_stationarity(divergence: Any, steps: int) -> None:
    model, reweight = make(divergence, steps=steps, val_batch=7)
    loss = reweight(model(TRAIN), None, torch.arange(5))
    loss.backward()
    found = reweight.stationarity(learning_rate=0.5)

    z, v = TRAIN.numpy()[:, None], VAL.numpy()[:, None]
    start = np.ones(5) if divergence.side == "train" else np.full(7, 1 / ref.psi_bar(z, v, 0.6).sum())
    if divergence.side == "val":  # coefficients in the order in which the stream reads them; all start equal
        assert torch.equal(reweight.val_schedule.order.sort().values, torch.arange(7))
    norm = abs(float((reweight.weights[:5] * TRAIN).mean()))  # d mean(w s x) / ds
    change = max(np.abs(step).sum() for step in gradient_steps(divergence, start, steps))
    assert found.gradient_norm == pytest.approx(norm)
    assert found.weight_change == pytest.approx(change, rel=1e-6)
    assert found.w2_ratio == pytest.approx(change / (0.5 * norm) ** 2, rel=1e-6)


def test_stationarity_counts_every_parameter_that_has_a_gradient() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
    model[0].bias.requires_grad_(False)
    val_set = TensorDataset(torch.randn(4, 2), torch.randint(2, (4,)))
    reweight = ADIW(model, nn.CrossEntropyLoss(reduction="none"), val_set, 6, Wasserstein(), warmup_steps=0)
    reweight(model(torch.randn(6, 2)), torch.randint(2, (6,)), torch.arange(6)).backward()
    norm = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).norm()
    assert reweight.stationarity(0.1).gradient_norm == pytest.approx(float(norm), rel=1e-5)


def test_stationarity_at_a_stationary_point() -> None:
    model, reweight = make(MMD(width=0.6))
    (0 * reweight(model(TRAIN), None, torch.arange(5))).backward()
    found = reweight.stationarity(0.1)
    assert found.gradient_norm == 0
    assert found.w2_ratio == math.inf


def test_stationarity_without_a_step_or_gradients_is_an_error() -> None:
    model, reweight = make(KL())
    with pytest.raises(ValueError, match="there was no training step yet"):
        reweight.stationarity(0.1)
    reweight(model(TRAIN), None, torch.arange(5))
    with pytest.raises(ValueError, match=r"no gradients: call this between loss\.backward\(\) and"):
        reweight.stationarity(0.1)


def test_a_summary_is_plain_numbers() -> None:
    model, reweight = make(KL())
    reweight(model(TRAIN), None, torch.arange(5))
    summary = reweight.summary()
    assert isinstance(summary, Summary)
    numbers = {name: value for name, value in asdict(summary).items() if name not in ("alarms", "groups")}
    assert all(type(value) in (int, float) for value in numbers.values())
    assert (summary.alarms, summary.groups) == ((), None)
