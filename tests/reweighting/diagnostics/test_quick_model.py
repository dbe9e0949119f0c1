"""The quick model: its losses are those of networks that were not trained on the sample."""

from __future__ import annotations

import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Generator, Tensor
from torch.nn.functional import smooth_l1_loss

from adiw.reweighting.diagnostics import quick_model
from adiw.reweighting.diagnostics.quick_model import (
    comparable_losses,
    draw_folds,
    features_of,
    out_of_fold_losses,
    standardised,
)
from adiw.reweighting.diagnostics.significance import loss_distance
from adiw.reweighting.progress import OnProgress


def draw(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Generator]:
    """Inputs (200, 50), random labels, folds, and a generator."""
    generator = Generator().manual_seed(seed)
    x, y = torch.randn(200, 50, generator=generator), torch.randint(2, (200,), generator=generator)
    return x, y, draw_folds(torch.arange(200) < 20, generator), generator


def test_random_labels_can_be_memorised_but_not_predicted() -> None:
    x, y, fold, generator = draw()
    assert out_of_fold_losses(x, y, fold, generator)[-1].mean() > 0.69


def test_samples_without_weight_are_not_learned() -> None:
    x, _, fold, generator = draw()
    right, wrong = (x[:, 0] > 0).long(), torch.arange(200) >= 120
    losses = out_of_fold_losses(x, right ^ wrong.long(), fold, generator, (~wrong).float())[-1]
    assert losses[wrong].median() > 4 * losses[~wrong].median()


def test_numbers_are_predicted_in_any_unit() -> None:
    x, _, fold, generator = draw()
    state, y = generator.get_state(), x[:, 0] + 0.1 * x[:, 1]
    losses = out_of_fold_losses(x, y, fold, generator)[-1]
    generator.set_state(state)
    assert losses.mean() < 0.8 * smooth_l1_loss(y / (y - y.median()).abs().mean(), torch.zeros(200))
    assert out_of_fold_losses(x, 1000 * y + 5, fold, generator)[-1] == pytest.approx(losses, rel=0.05, abs=0.01)


def test_each_fold_has_its_share_of_trusted_samples_and_each_step_is_reported() -> None:
    calls: list[int] = []
    x, y, fold, generator = draw()
    assert fold[:20].bincount().tolist() == [4] * 5
    assert fold[20:].bincount().tolist() == [36] * 5
    out_of_fold_losses(x, y, fold, generator, after_step=lambda: calls.append(1))
    assert len(calls) == 300


def test_wrong_labels_have_large_losses_and_trusted_ones_those_of_right_labels() -> None:
    generator = Generator().manual_seed(0)
    truth = torch.randint(4, (1000,), generator=generator)
    x = torch.randn(1000, 10, generator=generator) + 2 * torch.eye(4, 10)[truth]
    wrong = (torch.rand(1000, generator=generator) < 0.4) & (torch.arange(1000) >= 150)
    y = torch.where(wrong, (truth + 1) % 4, truth)
    is_trusted = torch.arange(1000) < 150
    losses = comparable_losses(x, y, is_trusted)
    assert roc_auc_score(wrong[150:], losses[150:]) > 0.9
    assert loss_distance(losses[150:][~wrong[150:]], losses[:150]).p_value > 0.01


def test_many_columns_are_projected() -> None:
    assert features_of(torch.randn(3, 40, 40)).shape == (3, 512)
    assert features_of(torch.zeros(3, 2, 30, 30, dtype=torch.uint8)).shape == (3, 2 * 8 * 8)


def test_columns_that_do_not_vary_or_are_not_finite_are_zero() -> None:
    x = torch.tensor([[1.0, 3.0, torch.nan], [2.0, 3.0, torch.inf]])
    assert standardised(x)[:, 1:].tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_trainings_on_the_same_samples_share_the_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def losses_of(x: Tensor, y: Tensor, is_trusted: Tensor, progress: OnProgress) -> Tensor:
        calls.append(len(x))
        return x.sum(1) + y + is_trusted.float()

    monkeypatch.setattr(quick_model, "_comparable_losses", losses_of)
    monkeypatch.setattr(quick_model, "_shared", {})
    x, y, is_trusted = torch.rand(6, 2), torch.arange(6), torch.arange(6) < 2
    first = comparable_losses(x, y, is_trusted)
    expected = first.clone()
    first.zero_()  # the caller's own
    assert torch.equal(comparable_losses(x.clone(), y, is_trusted), expected)
    assert len(calls) == 1
    for number, other in enumerate([(x + 1, y, is_trusted), (x, y.flip(0), is_trusted), (x, y, ~is_trusted)], 2):
        comparable_losses(*other)
        assert len(calls) == number
    for k in range(quick_model.MOST_SHARED):
        comparable_losses(x + 2 + k, y, is_trusted)
    assert len(quick_model._shared) == quick_model.MOST_SHARED
