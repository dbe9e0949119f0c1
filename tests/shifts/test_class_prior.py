"""Class sizes, trusted samples per class, and the ratio of class priors."""

from __future__ import annotations

import pytest
import torch

from adiw.shifts import ClassPrior, Shifted

Y = torch.arange(60_000) % 10  # the sizes of Fashion-MNIST


def shift(mu: float, rho: float, trusted: int | None = None) -> Shifted:
    return ClassPrior(mu, rho).apply(None, Y, 10, trusted, torch.Generator().manual_seed(2))


@pytest.mark.parametrize(("mu", "rho", "rare"), [(0.5, 100, 60), (0.5, 50, 120), (0.2, 10, 600), (0.5, 1, 6000)])
def test_class_sizes(mu: float, rho: float, rare: int) -> None:
    counts = shift(mu, rho).y.bincount().sort().values.tolist()
    num_rare = round(mu * 10)
    assert counts == [rare] * num_rare + [6000] * (10 - num_rare)


def test_ten_trusted_of_each_class_by_default_or_the_given_number() -> None:
    for trusted, per_class in ((None, 10), (200, 20), (0, 0)):
        shifted = shift(0.5, 100, trusted)
        assert shifted.y[shifted.trusted].bincount(minlength=10).tolist() == [per_class] * 10


def test_weights_are_the_ratio_of_priors_and_their_mean_is_one() -> None:
    shifted = shift(0.5, 100)
    assert shifted.true_weights is not None
    p_train = shifted.y.bincount() / len(shifted.y)
    torch.testing.assert_close(shifted.true_weights, 0.1 / p_train[shifted.y])
    assert shifted.true_weights.double().mean().item() == pytest.approx(1, abs=1e-6)


def test_unbalanced_data_keep_their_own_proportions_as_the_test_prior() -> None:
    y = torch.tensor([0] * 300 + [1] * 200 + [2] * 100)
    shifted = ClassPrior(0.34, 2).apply(None, y, 3, 30, torch.Generator().manual_seed(0))
    assert sorted(shifted.y.bincount().tolist()) == [50, 100, 100]
    assert shifted.true_weights is not None
    mass = torch.zeros(3).index_add(0, shifted.y, shifted.true_weights) / len(shifted.y)
    torch.testing.assert_close(mass, torch.tensor([300, 200, 100]) / 600)


def test_the_rare_classes_are_random() -> None:
    rare = {
        tuple(
            (ClassPrior(0.5, 10).apply(None, Y, 10, 0, torch.Generator().manual_seed(s)).y.bincount() < 6000).tolist()
        )
        for s in range(3)
    }
    assert len(rare) == 3


@pytest.mark.parametrize(
    ("mu", "rho", "trusted", "message"),
    [
        (0.5, 1000, None, "expected at least 10 samples left in a rare class"),
        (0.5, 100_000, 0, "expected at least 1 samples left"),
        (0.5, 10, 105, "expected a multiple of 10"),
        (0.01, 10, None, "at least one rare and one frequent class"),
        (0.99, 10, None, "at least one rare and one frequent class"),
        (0.0, 10, None, "expected 0 < mu < 1"),
        (1.0, 10, None, "expected 0 < mu < 1"),
        (0.5, 0.5, None, "expected 1 <= rho"),
        (0.5, float("inf"), None, "expected 1 <= rho"),
        (0.5, float("nan"), None, "expected 1 <= rho"),
    ],
)
def test_errors(mu: float, rho: float, trusted: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        shift(mu, rho, trusted)


def test_a_class_without_samples() -> None:
    with pytest.raises(ValueError, match="none of 2, 3"):
        ClassPrior(0.5, 2).apply(None, torch.arange(100) % 2, 4, 0, torch.Generator())
