"""The tests and intervals against scipy, and against simulations with a known truth."""

from __future__ import annotations

import math
from functools import lru_cache

import pytest
import torch

from adiw.reweighting.diagnostics.significance import (
    binomial_tail,
    kolmogorov_tail,
    loss_distance,
    mid_p_interval,
    mix_distance,
    paired_means,
    paired_rates,
    sign_test,
    t_quantile,
)

stats = pytest.importorskip("scipy.stats", reason="scipy is the reference")


@pytest.mark.parametrize(("k", "n", "p"), [(0, 5, 0.3), (3, 10, 0.2), (10, 10, 0.9), (400, 1000, 0.4), (5, 4, 0.5)])
def test_binomial_tails_are_exact(k: int, n: int, p: float) -> None:
    assert binomial_tail(k, n, p) == pytest.approx(float(stats.binom.sf(k - 1, n, p)), rel=1e-9)
    assert (binomial_tail(1, n, 0.0), binomial_tail(min(k, n), n, 1.0)) == (0.0, 1.0)


@pytest.mark.parametrize(("wins", "losses"), [(0, 0), (3, 3), (9, 1), (0, 12), (40, 60)])
def test_the_sign_test_is_that_of_scipy(wins: int, losses: int) -> None:
    expected = stats.binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    assert sign_test(wins, losses) == pytest.approx(float(expected))


@pytest.mark.parametrize(("k", "n"), [(0, 7), (7, 7), (3, 10), (120, 300)])
@pytest.mark.parametrize("confidence", [0.95, 0.99])
def test_the_mid_p_interval_is_inside_of_clopper_and_pearsons(k: int, n: int, confidence: float) -> None:
    low, high = mid_p_interval(k, n, confidence)
    exact = stats.binomtest(k, n).proportion_ci(confidence)
    assert exact.low < low or k == 0
    assert high < exact.high or k == n
    ends = [(low, stats.binom.sf(k - 1, n, low))] * (k > 0) + [(high, stats.binom.cdf(k, n, high))] * (k < n)
    for chance, tail in ends:
        assert tail - stats.binom.pmf(k, n, chance) / 2 == pytest.approx((1 - confidence) / 2, abs=1e-9)


@pytest.mark.parametrize("freedom", [1, 4, 30, 500])
def test_quantiles_of_student(freedom: int) -> None:
    for level in (0.9, 0.975, 0.999):
        assert t_quantile(level, freedom) == pytest.approx(float(stats.t.ppf(level, freedom)), rel=1e-3)


def test_the_distance_of_losses_is_kolmogorov_and_smirnovs() -> None:
    torch.manual_seed(0)
    train, trusted = torch.randn(300), torch.randn(80) - 0.4
    found, expected = loss_distance(train, trusted), stats.ks_2samp(train, trusted)
    assert found.distance == pytest.approx(float(expected.statistic))
    assert found.p_value == pytest.approx(float(expected.pvalue), rel=0.2)
    assert kolmogorov_tail(1.0) == pytest.approx(float(stats.kstwobign.sf(1.0)))
    assert kolmogorov_tail(0.1) == 1.0


def test_weights_act_on_the_distance_like_a_number_of_copies() -> None:
    train, trusted = torch.tensor([0.0, 1.0, 2.0]), torch.tensor([0.0, 0.5])
    weighted = loss_distance(train, trusted, torch.tensor([2.0, 0.0, 1.0]))
    copies = loss_distance(torch.tensor([0.0, 0.0, 2.0]), trusted)
    assert weighted.distance == pytest.approx(copies.distance)
    assert loss_distance(torch.tensor([0.0, math.nan, 9.0]), trusted, torch.tensor([1.0, 1.0, 0.0])).distance == 0.5
    assert loss_distance(train, trusted, torch.zeros(3)).p_value == 1.0


def test_the_distance_of_class_mixes() -> None:
    counts = torch.tensor([30, 20, 50])
    expected = stats.chisquare(counts.numpy(), [20, 30, 50])
    found = mix_distance(torch.tensor([2.0, 3.0, 5.0]), counts)
    assert found.p_value == pytest.approx(float(expected.pvalue))
    assert found.distance == pytest.approx(0.1)
    assert mix_distance(torch.ones(100), torch.ones(100)).p_value == 1.0  # too few of each class to say
    assert mix_distance(torch.tensor([1.0, 0.0]), torch.tensor([10, 40])).p_value < 1e-6
    assert mix_distance(torch.tensor([1.0, 1.0]), torch.tensor([0, 0])).p_value == 1.0


@pytest.mark.parametrize(("own", "other"), [(0.9, 0.9), (0.9, 0.7), (0.6, 0.5)])
def test_the_interval_of_paired_rates_covers_the_truth(own: float, other: float) -> None:
    generator, covered, runs = torch.Generator().manual_seed(0), 0, 400
    for _ in range(runs):
        u = torch.rand(2, 60, generator=generator)
        found = paired_rates(u[0] < own, u[1] < other)
        covered += found.low <= own - other <= found.high
    assert covered / runs > 0.95 - 3 * math.sqrt(0.95 * 0.05 / runs)


@lru_cache
def better(n: int, wins: int, losses: int) -> bool:
    own = torch.arange(n) < wins
    other = (torch.arange(n) >= wins) & (torch.arange(n) < wins + losses)
    return paired_rates(own, other).sign == 1


@pytest.mark.parametrize("n", [12, 30])
def test_a_difference_that_is_not_there_is_found_in_one_of_forty(n: int) -> None:
    """Summed over all outcomes, for models of equal accuracy that disagree on any share of the samples."""
    found = [(w, v) for w in range(n + 1) for v in range(min(w, n - w + 1)) if better(n, w, v)]
    wins, losses = (torch.tensor(values, dtype=torch.float64) for values in zip(*found, strict=True))
    ways = torch.lgamma(torch.tensor(n + 1.0, dtype=torch.float64)) - sum(
        torch.lgamma(part + 1) for part in (wins, losses, n - wins - losses)
    )
    levels = []
    for disagreement in torch.linspace(0.01, 0.99, 99, dtype=torch.float64):
        alike = (n - wins - losses) * torch.log(1 - disagreement)
        levels.append(float((ways + (wins + losses) * torch.log(disagreement / 2) + alike).exp().sum()))
    assert 0.02 < max(levels) < 0.0255


def test_five_of_five_pairs_are_enough_and_four_of_four_are_not() -> None:
    assert better(40, 5, 0)
    assert not better(40, 4, 0)


def test_zero_is_excluded_only_if_the_test_excludes_it() -> None:
    for wins in range(12):
        for losses in range(12):
            own = torch.tensor([True] * wins + [False] * losses + [True] * 40)
            other = torch.tensor([False] * wins + [True] * losses + [True] * 40)
            found, differing = paired_rates(own, other), wins + losses
            p_value = 2 * stats.binom.sf(max(wins, losses), differing, 0.5) if differing else 1.0
            p_value += stats.binom.pmf(max(wins, losses), differing, 0.5) if differing else 0.0
            if found.sign:
                assert p_value < 0.05
                assert found.sign == (1 if wins > losses else -1)
            elif p_value < 0.02:
                raise AssertionError((wins, losses, found))


def test_the_number_needed_is_enough_to_tell() -> None:
    generator = torch.Generator().manual_seed(0)
    first = torch.rand(2, 30, generator=generator)
    needed = paired_rates(first[0] < 0.9, first[1] < 0.75).needed
    true = paired_rates(torch.arange(100) < 90, torch.arange(100) < 75).needed
    assert needed > 30
    told = 0
    for _ in range(100):
        u = torch.rand(true, generator=generator)
        told += paired_rates(u < 0.9, u < 0.75).sign == 1
    assert told > 80 - 3 * 4  # the power is 80%


def test_the_interval_of_paired_means_is_students() -> None:
    values = torch.tensor([0.3, -0.1, 0.8, 0.4, 0.2])
    expected = stats.ttest_1samp(values.double().numpy(), 0).confidence_interval()
    found = paired_means(values)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-3)
    assert paired_means(values, 0.5).low > found.low
    assert paired_means(values[:1]).sign == 0
    assert paired_means(torch.ones(9)).sign == 1
