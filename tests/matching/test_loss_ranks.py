"""Weights by rank against scikit-learn's isotonic regression, scipy's test, and mixtures whose ratio is known."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Generator

from adiw.matching.loss_ranks import (
    FULL,
    LOWEST,
    NONE,
    decreasing,
    evidence_of_larger_mean,
    evidence_of_smaller,
    num_parts,
    rank_weights,
)


@pytest.mark.parametrize("size", [1, 2, 7, 40])
def test_decreasing_is_isotonic_regression(size: int) -> None:
    isotonic = pytest.importorskip("sklearn.isotonic")
    values = torch.randn(size, generator=Generator().manual_seed(size), dtype=torch.float64)
    expected = isotonic.isotonic_regression(values.numpy(), increasing=False)
    torch.testing.assert_close(decreasing(values), torch.tensor(expected.tolist(), dtype=torch.float64))


def mixture(wrong: float, size: int = 4000) -> tuple[torch.Tensor, torch.Tensor]:
    """Losses of training samples, a share of them with wrong labels, and of 300 trusted samples."""
    generator = Generator().manual_seed(3)
    right, other = torch.rand(size, generator=generator), 3 + torch.rand(size, generator=generator)
    is_wrong = torch.arange(size) < wrong * size
    return torch.where(is_wrong, other, right), torch.rand(300, generator=generator)


@pytest.mark.parametrize("wrong", [0.2, 0.4, 0.8])
def test_separated_wrong_labels_get_no_weight_and_the_others_the_true_ratio(wrong: float) -> None:
    train, trusted = mixture(wrong)
    table = rank_weights(train, trusted)
    weights = table.at(train)
    assert table.evidence == 1
    assert (weights[train > 3].mean(), weights.mean().item()) == (
        pytest.approx(0, abs=0.1),
        pytest.approx(1, abs=0.05),
    )
    # One part of the ranks may hold both kinds of labels.
    assert weights[train < 1].median().item() == pytest.approx(
        1 / (1 - wrong), rel=1.5 / (num_parts(300) * (1 - wrong))
    )


def test_all_weights_are_one_without_a_difference() -> None:
    train, trusted = mixture(0.0)
    table = rank_weights(train, trusted)
    assert table.evidence == 0
    assert table.weights.eq(1).all()


def test_larger_trusted_losses_are_no_evidence_of_wrong_labels() -> None:
    train, trusted = mixture(0.0)
    assert rank_weights(train, trusted + 0.5).weights.eq(1).all()


def test_the_evidence_of_smaller_losses_is_that_of_the_one_sided_test() -> None:
    stats = pytest.importorskip("scipy.stats")
    generator = Generator().manual_seed(0)
    train, trusted = torch.rand(500, generator=generator), torch.rand(80, generator=generator) * 0.85
    largest = stats.ks_2samp(trusted.numpy(), train.numpy(), alternative="greater").statistic
    expected = 80 * 500 / 580 * largest**2 - 1
    assert 0 < expected < 1  # the test could not fail at a bound
    assert evidence_of_smaller(train, trusted).item() == pytest.approx(expected, abs=1e-4)


def surprise(train: torch.Tensor, trusted: torch.Tensor) -> float:
    """-log of the p-value of the test of Berk and Jones, in plain Python."""
    largest, n, m = 0.0, len(train), len(trusted)
    for loss in trusted.tolist():
        u = max(sum(value <= loss for value in train.tolist()) / n, LOWEST)
        f = sum(value <= loss for value in trusted.tolist()) / m
        if f > u:
            terms = [a * math.log(a / b) for a, b in ((f, u), (1 - f, 1 - u)) if a > 0]
            largest = max(largest, sum(terms))
    return max(m * n / (m + n) * largest - 1, 0.0)


@pytest.mark.parametrize("largest", [0.85, 0.93, 0.96])
def test_the_evidence_is_that_of_the_test_of_berk_and_jones(largest: float) -> None:
    generator = Generator().manual_seed(0)
    train, trusted = torch.rand(500, generator=generator), torch.rand(80, generator=generator) * largest
    expected = min(max((surprise(train, trusted) - NONE) / (FULL - NONE), 0), 1)
    assert rank_weights(train, trusted).evidence.item() == pytest.approx(expected, abs=1e-4)


def test_without_a_difference_the_p_value_is_right() -> None:
    """P(-log p > s) is about exp(-s): three standard errors of 1,000 draws, and a factor of two."""
    generator = Generator().manual_seed(0)
    found = [
        rank_weights(torch.rand(300, generator=generator), torch.rand(50, generator=generator)).evidence
        for _ in range(1000)
    ]
    for share, p in (
        (sum(bool(e > 0) for e in found), math.exp(-NONE)),
        (sum(bool(e == 1) for e in found), math.exp(-FULL)),
    ):
        assert 500 * p - 3 * (1000 * p) ** 0.5 < share < 2000 * p + 3 * (1000 * p) ** 0.5


def test_few_wrong_labels_are_found_with_few_trusted_samples() -> None:
    """12% wrong: 2 m D^2, the exponent of Kolmogorov and Smirnov's p-value, is about 3 for 100 trusted samples."""
    train, trusted = mixture(0.12)
    assert rank_weights(train, trusted[:100], before=torch.zeros(())).evidence == 1


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_unit_of_the_losses_does_not_matter(scale: float) -> None:
    train, trusted = mixture(0.4)
    reference, scaled = rank_weights(train, trusted), rank_weights(scale * train, scale * trusted)
    torch.testing.assert_close(scaled.weights, reference.weights)


def test_losses_that_are_not_finite_are_excluded() -> None:
    train, trusted = mixture(0.4)
    bad = torch.tensor([float("nan"), float("inf")])
    reference = rank_weights(train, trusted)
    table = rank_weights(torch.cat([bad, train]), torch.cat([trusted[:298], bad]))
    assert table.count == len(train)
    torch.testing.assert_close(table.weights, reference.weights, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("train", [0, 1])
def test_without_losses_there_is_no_evidence(train: int) -> None:
    losses = torch.full((50,), float("nan"))
    losses[:train] = 1.0
    assert rank_weights(losses, torch.zeros(20)).weights.eq(1).all()
    assert rank_weights(torch.rand(50), torch.full((20,), float("nan"))).weights.eq(1).all()


def test_equal_losses_are_no_evidence() -> None:
    zeros, half = torch.zeros(200), (torch.arange(200) % 2).float()
    assert evidence_of_smaller(zeros, zeros[:50]) == 0
    assert evidence_of_smaller(half, half[:50]) == 0
    assert evidence_of_smaller(half, zeros[:50]) == 1


@pytest.mark.parametrize("seed", range(4))
def test_evidence_of_losses_that_are_known_to_be_finite(seed: int) -> None:
    generator = Generator().manual_seed(seed)
    train, trusted = torch.rand(80, generator=generator), 0.8 * torch.rand(60, generator=generator)
    found = evidence_of_smaller(train, trusted, 1.5, all_finite=True)
    assert 0 < found < 1
    assert found == evidence_of_smaller(train, trusted, 1.5)
    infinite = torch.tensor([torch.nan, torch.inf, -torch.inf])
    more = torch.cat([infinite, train]), torch.cat([trusted, infinite])
    assert found == evidence_of_smaller(*more, 1.5)


def test_the_threshold_of_the_evidence() -> None:
    train, trusted = torch.rand(500, generator=Generator().manual_seed(0)), torch.zeros(3)  # a statistic of almost 3
    found = [evidence_of_smaller(train, trusted, threshold).item() for threshold in (1.0, 2.0, 2.5, 3.0)]
    assert found == pytest.approx([1, 1500 / 503 - 2, 1500 / 503 - 2.5, 0])


@pytest.mark.parametrize(("largest", "started"), [(0.85, 1), (0.92, 0), (0.94, 0), (0.99, 0)])
def test_evidence_starts_where_the_p_value_is_at_most_m_to_the_minus_three_halves(
    largest: float, started: float
) -> None:
    """Of 80 trusted samples: -log of the p-value is at least 6.57. Here it is 11.5, 5.4, 3.8 and 0."""
    train, trusted = torch.linspace(0, 1, 2000), largest * torch.linspace(0, 1, 80)
    kept = min(max((surprise(train, trusted) - NONE) / (FULL - NONE), 0), 1)
    bad = torch.full((500,), float("nan"))  # counted, they would raise the bound to 9.5
    for losses in (trusted, torch.cat([trusted, bad])):
        tables = [rank_weights(train, losses, before=torch.tensor(before)) for before in (0.0, 0.1)]
        assert [float(table.evidence) for table in tables] == pytest.approx([started, kept], abs=1e-3)
        assert [bool(table.weights.eq(1).all()) for table in tables] == [started == 0, kept == 0]
        assert float(rank_weights(train, losses).evidence) == pytest.approx(kept, abs=1e-3)


def test_right_labels_with_large_losses_are_kept_where_few_trusted_samples_tell_of_them() -> None:
    """8% wrong; the largest 7% of the right losses lie among the wrong ones, with one of 30 trusted samples."""
    generator = Generator().manual_seed(0)
    right, wrong = torch.rand(920, generator=generator), 1 + torch.rand(80, generator=generator)
    right[:60] = 1 + torch.rand(60, generator=generator)
    trusted = torch.cat([torch.linspace(0.01, 0.99, 29), torch.tensor([1.2])])
    weights = rank_weights(torch.cat([right, wrong]), trusted).at(right)
    assert (weights > 0.5).float().mean() > 0.95


def test_the_evidence_of_a_larger_mean_is_that_of_welchs_test() -> None:
    stats = pytest.importorskip("scipy.stats")
    generator = Generator().manual_seed(0)
    train, trusted = torch.randn(500, generator=generator), 0.3 + 2 * torch.randn(200, generator=generator)
    expected = stats.ttest_ind(trusted.numpy(), train.numpy(), equal_var=False).statistic
    assert 1 < expected < 5
    threshold = float(expected) - 0.4
    bad = torch.tensor([float("nan"), float("inf")])
    for more in (bad[:0], bad):
        found = evidence_of_larger_mean(torch.cat([train, more]), torch.cat([trusted, more]), threshold)
        assert found.item() == pytest.approx(0.4, abs=1e-4)
    assert evidence_of_larger_mean(train, trusted, threshold - 1) == 1
    assert evidence_of_larger_mean(trusted, train, 1.0) == 0


def test_without_a_difference_there_is_no_evidence_of_a_larger_mean() -> None:
    zeros, unknown = torch.zeros(50), torch.full((50,), float("nan"))
    for train, trusted in ((zeros, zeros), (unknown, zeros), (zeros, unknown), (unknown, unknown)):
        assert evidence_of_larger_mean(train, trusted, 2.5) == 0
