"""DIW: the losses that it matches, its kernel, and its weights in the loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from adiw.baselines import DIW
from adiw.baselines.diw import RIDGE, kernel_mean_matching, quantile_gamma
from adiw.matching.batches import match
from tests.baselines.suite import BATCH, VAL_SET, N, X, Y, make, make_model, one_step, same

INDEX = torch.arange(BATCH)


def eval_losses(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    model.eval()
    losses = nn.functional.cross_entropy(model(x), y, reduction="none").detach()
    model.train()
    return losses


@pytest.mark.parametrize("solver", ["gpu", "cvxopt", "osqp"])
def test_weights_solve_the_program_of_the_losses_in_evaluation_mode(solver: Any) -> None:
    model = make_model(batch_norm=True)
    model(4 * X)  # running averages that differ from the batch's statistics
    val_set = TensorDataset(*VAL_SET[:8])  # read whole in each step
    reweight = make(DIW, model, val_set=val_set, width=0.3, solver=solver, warmup_steps=0)
    one_step(reweight, model, INDEX)
    z_train = eval_losses(model, X[INDEX], Y[INDEX]).double()[:, None]
    z_val = eval_losses(model, *VAL_SET[:8]).double()[:, None]
    # The program, written out.
    K = torch.exp(-((z_train - z_train.T) ** 2) / (2 * 0.3**2)) + 1e-5 * torch.eye(BATCH)
    k = torch.exp(-((z_train - z_val.T) ** 2) / (2 * 0.3**2)).sum(1) * BATCH / 8
    weights = reweight.weights[INDEX].double()
    gradient, mean = K @ weights - k, weights.mean()
    assert 1 / BATCH**0.5 < mean < 2 - 1 / BATCH**0.5  # inside the band: its multiplier is zero
    tolerance = 1e-3 * float(k.abs().max())
    assert bool((gradient > -tolerance).all())
    assert bool((gradient[weights > 1e-3].abs() < tolerance).all())


def test_quantile_width_is_gamma_of_the_public_code() -> None:
    z_train = eval_losses(make_model(), X[INDEX], Y[INDEX]).double()[:, None]
    z_val = eval_losses(make_model(), *VAL_SET[:]).double()[:, None]
    distances = [abs(float(a - b)) for i, a in enumerate(z_train) for b in z_train[i + 1 :]]
    gamma = np.quantile(distances, 0.01)
    pair = match(z_train, z_val)
    assert float(quantile_gamma(pair)) == pytest.approx(gamma, rel=1e-12)
    problem = kernel_mean_matching(pair, "quantile")
    expected = torch.exp(-gamma * (z_train - z_train.T) ** 2) + RIDGE * torch.eye(BATCH)
    torch.testing.assert_close(problem.K, expected, rtol=0, atol=1e-12)
    # In our own convention, sigma = 1 / sqrt(2 gamma).
    ours = kernel_mean_matching(pair, float((2 * gamma) ** -0.5))
    torch.testing.assert_close(problem.k, ours.k, rtol=1e-10, atol=0)


def test_quantile_ignores_nonfinite_samples_and_works_for_a_batch_of_one() -> None:
    z_val = torch.ones(1, 1)
    z_train = torch.tensor([[0.0], [1.0], [float("nan")], [5.0]])
    assert float(quantile_gamma(match(z_train, z_val), share=0.5)) == 4
    assert float(quantile_gamma(match(z_train[:1], z_val))) == 0


@pytest.mark.parametrize(("warmup_steps", "warm"), [(0, 0), (2, 2), (None, N // BATCH)])
def test_warm_up(warmup_steps: int | None, warm: int) -> None:
    """Weights of one at first; by default for one epoch."""
    model = make_model()
    reweight = make(DIW, model, warmup_steps=warmup_steps)
    for step in range(N // BATCH + 1):
        before = reweight.weights.clone()
        loss = one_step(reweight, model, INDEX)
        plain = nn.functional.cross_entropy(model(X[INDEX]), Y[INDEX])
        assert same(reweight.weights, before) == torch.allclose(loss, plain) == (step < warm)


def test_settings_are_checked() -> None:
    for settings, message in (
        ({"width": 0.0}, 'width must be a positive number .sigma. or "quantile", got 0.0'),
        ({"width": "median"}, "width must be a positive number .sigma. or \"quantile\", got 'median'"),
        ({"solver": "mosek"}, "unknown solver 'mosek': expected one of 'gpu', 'cvxopt', 'osqp'"),
        ({"warmup_steps": -1}, "warmup_steps must be at least 0, got -1"),
    ):
        with pytest.raises(ValueError, match=message):
            make(DIW, make_model(), **settings)


def test_a_state_with_other_settings_is_an_error() -> None:
    state = make(DIW, make_model(), width=0.1).state_dict()
    with pytest.raises(ValueError, match=r"made with DIW\(width=0.1, .*, but this is DIW\(width=0.2"):
        make(DIW, make_model(), width=0.2).load_state_dict(state)
