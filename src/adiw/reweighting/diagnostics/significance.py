"""Two-sample and paired tests on few samples, exact where that is simple."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import torch
from torch import Tensor

CONFIDENCE = 0.95  # of the intervals that are reported
POWER = 0.8  # of the sample sizes that are suggested
LEAST_DIFFERENCE = 0.01  # of two rates that a number of samples is suggested for
LEAST_EXPECTED = 5.0  # of a class in a chi-square test; rarer classes are counted together


def binomial_tail(successes: int, trials: int, chance: float) -> float:
    """P(X >= successes) for X ~ Binomial(trials, chance).

    >>> round(binomial_tail(9, 10, 0.5), 5)
    0.01074
    """
    if successes <= 0 or chance >= 1:
        return 1.0 if successes <= trials else 0.0
    if successes > trials or chance <= 0:
        return 0.0
    k = torch.arange(successes, trials + 1, dtype=torch.float64)
    n = torch.tensor(float(trials), dtype=torch.float64)
    ways = torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)
    return min(1.0, float((ways + k * math.log(chance) + (n - k) * math.log1p(-chance)).exp().sum()))


def sign_test(wins: int, losses: int) -> float:
    """The two-sided p-value of as many wins and losses if both were equally likely (McNemar's exact test).

    >>> round(sign_test(0, 6), 5)
    0.03125
    """
    return min(1.0, 2 * binomial_tail(max(wins, losses), wins + losses, 0.5))


@dataclass(frozen=True)
class Distance:
    """How far apart two samples are, and how likely a distance as large is by chance."""

    distance: float  # largest difference of the two distribution functions, or half the L1 distance of the shares
    p_value: float
    smaller: bool = False  # whether the first sample has the smaller values, where that was asked for


def loss_distance(train: Tensor, trusted: Tensor, weights: Tensor | None = None) -> Distance:
    """The two-sample Kolmogorov-Smirnov test of training values (n,), with weights (n,), and trusted values (m,).

    Values that are not finite are excluded. Weighted values count as their effective sample size.

    >>> loss_distance(torch.arange(100.0), torch.arange(40.0)).distance
    0.6
    """
    weights = torch.ones_like(train) if weights is None else weights
    valid = train.isfinite() & weights.isfinite()
    train, weights, trusted = train[valid].double(), weights[valid].double(), trusted[trusted.isfinite()].double()
    total = float(weights.sum())
    if total <= 0 or len(trusted) == 0:
        return Distance(0.0, 1.0)
    order = train.argsort()
    cumulative = torch.cat([weights.new_zeros(1), weights[order].cumsum(0) / total])
    points = torch.cat([train, trusted])
    share_train = cumulative[torch.searchsorted(train[order], points, right=True)]
    share_trusted = torch.searchsorted(trusted.sort().values, points, right=True).double() / len(trusted)
    apart = share_train - share_trusted
    distance = float(apart.abs().max())
    effective = total**2 / float(weights.square().sum())
    size = math.sqrt(effective * len(trusted) / (effective + len(trusted)))
    p_value = kolmogorov_tail((size + 0.12 + 0.11 / size) * distance)
    return Distance(distance, p_value, bool(apart.max() >= -apart.min()))


def kolmogorov_tail(x: float) -> float:
    """P(K > x) for the limit K of the scaled Kolmogorov-Smirnov distance.

    >>> round(kolmogorov_tail(1.36), 3)
    0.049
    """
    if x < 0.2:  # the series converges slowly, and the value is one to ten digits
        return 1.0
    series = sum(math.copysign(math.exp(-2 * (k * x) ** 2), k % 2 - 0.5) for k in range(1, 101))
    return min(1.0, max(0.0, 2 * series))


def mix_distance(expected: Tensor, counts: Tensor) -> Distance:
    """Pearson's chi-square test of the numbers of samples of each class (C,) against expected shares (C,).

    Classes that are expected less than ``LEAST_EXPECTED`` times are counted together.

    >>> mix_distance(torch.tensor([0.5, 0.5]), torch.tensor([30, 10])).p_value < 0.01
    True
    """
    counts, expected = counts.double(), expected.double()
    total = counts.sum()
    if float(expected.sum()) <= 0 or float(total) == 0:
        return Distance(0.0, 1.0)
    expected = expected / expected.sum() * total
    distance = float((counts - expected).abs().sum() / (2 * total))
    rare = expected < LEAST_EXPECTED
    cells = torch.stack([torch.cat([x[~rare], x[rare].sum(0, keepdim=True)]) for x in (counts, expected)])
    cells = cells[:, cells.sum(0) > 0]
    if cells.shape[1] < 2:
        return Distance(distance, 1.0)
    statistic = ((cells[0] - cells[1]).square() / cells[1].clamp_min(0.5)).sum()
    freedom = torch.tensor((cells.shape[1] - 1) / 2, dtype=torch.float64)
    return Distance(distance, float(torch.special.gammaincc(freedom, statistic / 2)))


@dataclass(frozen=True)
class Interval:
    """A mean difference of n pairs, its confidence interval, and how many pairs would show its sign."""

    difference: float
    low: float
    high: float
    n: int
    needed: int  # pairs, for a difference of this size

    @property
    def sign(self) -> int:
        """1 or -1 if the interval excludes zero, else 0."""
        return (self.low > 0) - (self.high < 0)


def paired_rates(own: Tensor, other: Tensor, confidence: float = CONFIDENCE) -> Interval:
    """The difference of two success rates on the same samples, from booleans (n,).

    Zero is outside of the interval only if McNemar's mid-p test of the pairs that differ rejects it: the interval is
    the hull of the mid-p interval, given the number of pairs that differ, and of Bonett and Price's, which also
    covers that this number is random.

    >>> found = paired_rates(torch.arange(40) < 36, torch.arange(40) < 24)
    >>> round(found.difference, 2), found.low > 0
    (0.3, True)
    """
    n, wins, losses = len(own), int((own & ~other).sum()), int((~own & other).sum())
    differing = wins + losses
    difference = (wins - losses) / n
    given = [(2 * share - 1) * differing / n for share in mid_p_interval(wins, differing, confidence)]
    centre = (wins - losses) / (n + 2)
    spread = math.sqrt(max((differing + 2) / (n + 2) - centre**2, 0) / (n + 2)) * _z((1 + confidence) / 2)
    low, high = min(given[0], centre - spread), max(given[1], centre + spread)
    needed = pairs_needed(max(abs(difference), LEAST_DIFFERENCE), (differing + 1) / (n + 2), confidence)
    return Interval(difference, max(low, -1.0), min(high, 1.0), n, needed)


def pairs_needed(difference: float, disagreement: float, confidence: float = CONFIDENCE) -> int:
    """How many samples show that two success rates differ, for models that disagree on a share of the samples.

    >>> pairs_needed(0.1, 0.2)
    170
    """
    rate = max(disagreement, difference)
    normal = (_z((1 + confidence) / 2) + _z(POWER)) ** 2 * max(rate - difference**2, rate / 10) / difference**2
    return math.ceil(normal + 2 / difference)  # the test needs a few more than the normal approximation says


def losses_needed(distance: float, level: float) -> int:
    """How many trusted samples show a Kolmogorov-Smirnov distance at this level, with many more training samples.

    >>> losses_needed(0.3, 0.01)
    47
    """
    critical = math.sqrt(-math.log(level / 2) / 2)
    deviation = 0.5  # of a share times sqrt(m), at most
    return math.ceil(((critical + deviation * _z(POWER)) / max(distance, 1e-6)) ** 2)


def paired_means(difference: Tensor, confidence: float = CONFIDENCE) -> Interval:
    """The mean of paired differences (n,) with Student's t interval.

    >>> found = paired_means(torch.tensor([1.0, 2.0, 3.0, 2.0]))
    >>> found.difference, round(found.low, 2), round(found.high, 2)
    (2.0, 0.7, 3.3)
    """
    values = difference.double()
    n, mean = len(values), float(values.mean())
    if n < 2:
        return Interval(mean, -math.inf, math.inf, n, 2)
    deviation = float(values.std())
    half = t_quantile((1 + confidence) / 2, n - 1) * deviation / math.sqrt(n)
    z = _z((1 + confidence) / 2) + _z(POWER)
    needed = math.ceil((z * deviation / mean) ** 2) if abs(mean) > 1e-3 * deviation else 10**6
    return Interval(mean, mean - half, mean + half, n, max(needed, 2))


@lru_cache(maxsize=1024)
def mid_p_interval(successes: int, trials: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The confidence interval of a success rate that counts half of the chance of what was observed.

    Clopper and Pearson's counts all of it and is wider than its confidence asks for.

    >>> [round(end, 3) for end in mid_p_interval(0, 10)]
    [0.0, 0.259]
    """

    def tail(chance: float) -> float:
        return (binomial_tail(successes, trials, chance) + binomial_tail(successes + 1, trials, chance)) / 2

    side = (1 - confidence) / 2
    return _solve(lambda p: tail(p) - side), _solve(lambda p: tail(p) - 1 + side)


def t_quantile(level: float, freedom: int) -> float:
    """The quantile of Student's t distribution, by bisection of its distribution function.

    >>> round(t_quantile(0.975, 10), 3)
    2.228
    """
    constant = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    angle = torch.linspace(0, math.pi / 2, 20_001, dtype=torch.float64)[:-1]  # t = sqrt(freedom) tan(angle)
    density = constant * math.sqrt(freedom) * torch.cos(angle) ** (freedom - 1)
    below = 0.5 + torch.cumulative_trapezoid(density, angle)
    position = int(torch.searchsorted(below, torch.tensor(level, dtype=torch.float64)).clamp_max(len(below) - 1))
    return math.sqrt(freedom) * math.tan(float(angle[position + 1]))


def _solve(increasing: Callable[[float], float]) -> float:
    """The root between 0 and 1 of an increasing function."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if increasing(middle) < 0 else (low, middle)
    return (low + high) / 2


def _z(level: float) -> float:
    return NormalDist().inv_cdf(level)
