"""Covariate and class-conditional shift, and their sampling."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from adiw.shifts import ClassConditional, Covariate
from adiw.shifts.biased_sampling import keep_probability, principal_score

N = 6000


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def data() -> tuple[Tensor, Tensor]:
    x = torch.randn(N, 4, 5, generator=seeded(0)) * torch.linspace(2, 1, 20).reshape(4, 5)
    return x, (torch.arange(N) % 10).clamp(max=5)  # classes 0 to 5, of which 5 is half of the data


def test_score_is_the_first_principal_component_whatever_the_seed() -> None:
    x, _ = data()
    flat = (x - x.mean(0)).flatten(1).double()
    left = torch.linalg.svd(flat, full_matrices=False).U[:, 0] * N**0.5
    for seed in range(3):
        score = principal_score(x, seeded(seed))
        assert score.mean().item() == pytest.approx(0, abs=1e-9)
        assert score.var(correction=0).item() == pytest.approx(1)
        assert abs((score * left).mean().item()) == pytest.approx(1, abs=1e-4)
        torch.testing.assert_close(score, principal_score(x, seeded(9)), atol=0.05, rtol=0)


@pytest.mark.parametrize("other", [[1.0, -1.0], [-1.0, 1.0]])
def test_score_sign_is_fixed_where_entries_tie(other: list[float]) -> None:
    x = torch.linspace(-1, 1, 101)[:, None] * torch.tensor(other)
    assert bool((principal_score(x, seeded(0)) * x[:, 0] >= -1e-6).all())


def test_score_of_bytes_of_constants_and_of_one_sample() -> None:
    assert principal_score(torch.arange(250, 255).to(torch.uint8), seeded(0)).diff().min() > 0
    for x in (torch.full((5, 3), 7.0), torch.randn(1, 4)):
        assert torch.equal(principal_score(x, seeded(0)), torch.zeros(len(x), dtype=torch.float64))
    with pytest.raises(ValueError, match="expected finite inputs"):
        principal_score(torch.tensor([[1.0], [float("nan")]]), seeded(0))


def test_keep_probability_survives_extreme_strengths() -> None:
    probability = keep_probability(torch.tensor([-3.0, -2.0]).double(), 1000.0)
    assert probability.tolist() == [0.0, 1.0]


def test_covariate_shift_prefers_large_scores_with_the_stated_probabilities() -> None:
    x, y = data()
    shifted = Covariate(2.0).apply(x, y, 6, 600, seeded(1))
    assert shifted.true_weights is not None
    score = principal_score(x, seeded(1))
    included = 0.1 + 0.9 * keep_probability(score, 2.0)
    expected = 1 / included[shifted.keep]
    torch.testing.assert_close(shifted.true_weights, (expected / expected.mean()).float(), rtol=1e-2, atol=0)
    sd = (included * (1 - included)).sum().sqrt()
    assert abs(len(shifted.keep) - included.sum()) < 4 * sd
    assert score[shifted.keep].mean() > 0.3


def test_trusted_samples_follow_the_original_distribution() -> None:
    x, y = data()
    score = principal_score(x, seeded(1))
    for shift in (Covariate(3.0), ClassConditional(3.0)):
        shifted = shift.apply(x, y, 6, 600, seeded(1))
        assert abs(score[shifted.keep[shifted.trusted]].mean().item()) < 4 / 600**0.5


def test_class_conditional_shift_keeps_class_proportions() -> None:
    x, y = data()
    shifted = ClassConditional(2.0).apply(x, y, 6, 303, seeded(1))
    assert shifted.true_weights is not None
    share = len(shifted.y) / N
    sd = (y.bincount() * share * (1 - share)).sqrt()  # at most: what is kept in a class has different probabilities
    assert bool(((shifted.y.bincount() - share * y.bincount()).abs() <= 4 * sd).all())
    for c in range(6):
        assert shifted.true_weights[shifted.y == c].mean().item() == pytest.approx(1, abs=1e-5)
        mine = x[y == c]
        kept = torch.isin((y == c).nonzero().flatten(), shifted.keep)
        assert principal_score(mine, seeded(0))[kept].mean() > 0.3


@pytest.mark.parametrize("shift", [Covariate(0.0), ClassConditional(0.0), Covariate(2.0), ClassConditional(2.0)])
def test_no_strength_or_trust_in_all_changes_nothing(shift: Covariate | ClassConditional) -> None:
    x, y = data()
    shifted = shift.apply(x, y, 6, 10 if shift.strength == 0 else N, seeded(0))
    assert len(shifted.keep) == N
    torch.testing.assert_close(shifted.true_weights, torch.ones(N))


def test_negative_strength_prefers_the_other_side() -> None:
    x, y = data()
    kept = Covariate(-2.0).apply(x, y, 6, 0, seeded(1)).keep
    assert principal_score(x, seeded(1))[kept].mean() < -0.3


def test_a_missing_class_is_no_obstacle() -> None:
    x, y = data()
    assert len(ClassConditional(1.0).apply(x, y, 8, 100, seeded(0)).trusted) == 100


@pytest.mark.parametrize("shift", [Covariate, ClassConditional])
def test_errors(shift: type[Covariate] | type[ClassConditional]) -> None:
    x, y = data()
    with pytest.raises(ValueError, match="got None"):
        shift(1.0).apply(None, y, 6, 10, seeded(0))
    with pytest.raises(ValueError, match=f"as many inputs as labels, {N}, got 5"):
        shift(1.0).apply(x[:5], y, 6, 10, seeded(0))
    for strength in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="expected a finite number"):
            shift(strength)
