"""The quick model: its losses are those of networks that were not trained on the sample."""

from __future__ import annotations

import pytest
import torch
from torch import Generator, Tensor

from adiw.reweighting.quick_model import out_of_fold_losses, standardised


def draw(seed: int = 0) -> tuple[Tensor, Tensor, Generator]:
    """Inputs (200, 50), random labels, and a generator."""
    generator = Generator().manual_seed(seed)
    return torch.randn(200, 50, generator=generator), torch.randint(2, (200,), generator=generator), generator


def test_random_labels_can_be_memorised_but_not_predicted() -> None:
    x, y, generator = draw()
    assert out_of_fold_losses(x, y, torch.arange(200) < 20, generator).mean() > 0.69


def test_samples_without_weight_are_not_learned() -> None:
    x, _, generator = draw()
    right = (x[:, 0] > 0).long()
    wrong = torch.arange(200) < 80
    losses = out_of_fold_losses(x, right ^ wrong.long(), ~wrong, generator, (~wrong).float())
    assert losses[wrong].median() > 4 * losses[~wrong].median()


def test_numbers_are_predicted_in_any_unit() -> None:
    x, _, generator = draw()
    state, is_trusted = generator.get_state(), torch.arange(200) < 20
    y = x[:, 0] + 0.1 * x[:, 1]
    losses = out_of_fold_losses(x, y, is_trusted, generator)
    generator.set_state(state)
    assert losses.mean() < 0.8  # of the variance
    assert out_of_fold_losses(x, 1000 * y + 5, is_trusted, generator).mean() == pytest.approx(
        float(losses.mean()), rel=0.01
    )


def test_each_fold_has_its_share_of_trusted_samples_and_is_reported() -> None:
    x, _, generator = draw()
    calls: list[int] = []
    is_trusted = torch.arange(200) < 5  # one in each fold: its model has seen the four others
    losses = out_of_fold_losses(x, is_trusted.long(), is_trusted, generator, done=lambda: calls.append(1))
    assert len(calls) == 5
    assert losses.isfinite().all()


def test_columns_that_do_not_vary_or_are_not_finite_are_zero() -> None:
    x = torch.tensor([[1.0, 3.0, torch.nan], [2.0, 3.0, torch.inf]])
    assert standardised(x)[:, 1:].tolist() == [[0.0, 0.0], [0.0, 0.0]]
