"""Weights from the ranks of trusted losses among the training losses: no width and no step size.

Where some labels are wrong, the training losses are a mixture of losses of right and of wrong labels, and the trusted
losses are drawn from the first part. The ratio of the two densities, as a function of the rank u of a loss among the
training losses, is then proportional to the probability that a label is right, and falls with u. Its estimate among
the decreasing functions is isotonic regression (the Grenander estimator), which minimises every f-divergence at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from adiw.matching.batches import is_finite

PSEUDO_SAMPLES = 2.0  # the ratio is shrunk towards one by so many trusted samples
LOWEST = 0.25  # of the training losses: all labels there are taken to be right
THRESHOLD, STEEPNESS = 0.65, 20.0  # a label that is right with probability THRESHOLD gets half of the full weight
LEAST = 0.01  # a smaller share of the full weight is zero: losses of gross errors are thousands of times larger
# -log of the p-value of the test of Berk and Jones: up to the first all weights are one, from the second on they are
# those of the ratio. They start to differ where it is at least STARTS log m.
NONE, FULL, STARTS = 2.0, 4.0, 1.5
EVIDENCE = 1.0  # of m n / (m + n) D^2, the one-sided Kolmogorov-Smirnov test, in ``evidence_of_smaller``
PRIOR_SAMPLES = 5.0  # class shares are shrunk towards each other by so many trusted samples


@dataclass(frozen=True)
class RankWeights:
    """The weight of a training sample as a function of the rank of its loss."""

    ranked: Tensor  # (p,) the training losses in increasing order, infinite behind the finite ones
    count: Tensor  # how many of them are finite, a scalar, at least one
    weights: Tensor  # (K,) for the K parts of equal size of the ranks; their mean is one
    evidence: Tensor  # from 0 (no evidence that trusted losses are smaller: all weights are one) to 1, a scalar

    def at(self, losses: Tensor) -> Tensor:
        """The weights of samples with these losses, (n,)."""
        smaller = torch.searchsorted(self.ranked, losses.contiguous())
        return self.weights.index_select(0, _part(smaller, self.count, len(self.weights)))

    @property
    def full(self) -> Tensor:
        """The weight of a sample whose label is certainly right, a scalar."""
        return self.weights[0]


def rank_weights(train: Tensor, trusted: Tensor, sharpen: bool = True, before: Tensor | None = None) -> RankWeights:
    """Weights by rank from training losses (p,) and trusted losses (m,). Losses that are not finite are excluded.

    Without ``sharpen`` they are the ratio of the two densities; with it, ratios that stand for labels that are rather
    wrong than right become small.

    A part of the ranks is rejected only as far as the upper bound of its ratio tells, one standard error above the
    estimate: few trusted samples leave large errors in it.

    ``before``: the evidence at the last estimate, for a network that trains with these weights. With unequal weights
    it fits the trusted samples better, even where the evidence was chance. So evidence above zero begins only where
    the p-value of the test is at most m^(-3/2).

    >>> right, wrong = torch.linspace(0, 1, 60), torch.linspace(5, 6, 40)
    >>> table = rank_weights(torch.cat([right, wrong]), torch.linspace(0, 1, 50))
    >>> [round(w, 2) for w in table.at(torch.tensor([0.1, 5.5])).tolist()]
    [1.67, 0.0]
    """
    ranked, number, count = _in_order(train)
    ordered, number_trusted, count_trusted = _in_order(trusted)
    # The share of the training losses below each trusted loss, with half of those that are equal.
    ends = torch.searchsorted(ranked, ordered) + torch.searchsorted(ranked, ordered, right=True)
    parts = num_parts(len(trusted))
    part = torch.where(ordered < torch.inf, _part(ends, 2 * count, parts), -1)
    shares = (part[:, None] == torch.arange(parts, device=train.device)).sum(0) / count_trusted
    shrink = PSEUDO_SAMPLES / (count_trusted + PSEUDO_SAMPLES)
    ratio = decreasing((1 - shrink) * parts * shares + shrink)
    weights = ratio
    if sharpen:
        bound = _upper_bound(ratio, count_trusted / parts)
        right = bound / ratio[: max(1, round(LOWEST * parts))].mean()
        weights = torch.sigmoid(STEEPNESS * (right - THRESHOLD))
        weights = weights.where(weights >= LEAST, 0)
    surprise = -_log_p_value(*_shares(ranked, number, count, ordered, number_trusted, count_trusted))
    evidence = ((surprise - NONE) / (FULL - NONE)).clamp(0, 1)
    if before is not None:
        evidence = evidence.where((before > 0) | (surprise >= STARTS * count_trusted.log()), 0)
    return RankWeights(ranked, count, 1 + evidence * (weights / weights.mean() - 1), evidence)


def evidence_of_smaller(
    train: Tensor, trusted: Tensor, threshold: float = EVIDENCE, all_finite: bool = False
) -> Tensor:
    """Evidence that trusted losses (m,) are smaller than training losses (n,): from 0 (none) to 1, a scalar.

    It is zero up to a statistic of ``threshold``, and one from ``threshold`` + 1 on: m n / (m + n) D^2 of the
    one-sided two-sample Kolmogorov-Smirnov test, where D is the largest difference of the shares of trusted and of
    training losses up to a value. ``all_finite`` promises that all losses are finite.

    >>> small, large = torch.linspace(0, 1, 50), torch.linspace(1, 2, 50)
    >>> float(evidence_of_smaller(large, small)), float(evidence_of_smaller(small, large))
    (1.0, 0.0)
    """
    in_order = _finite_in_order if all_finite else _in_order
    at_most, trusted_at_most, size = _shares(*in_order(train), *in_order(trusted))
    largest = (trusted_at_most - at_most).amax().clamp_min(0)
    return (size * largest.square() - threshold).clamp(0, 1)


def evidence_of_larger_mean(train: Tensor, trusted: Tensor, threshold: float) -> Tensor:
    """Evidence that the mean of trusted samples' values (m,) is larger than that of training samples (n,), a scalar.

    It is zero up to a difference of ``threshold`` standard errors, and one from ``threshold`` + 1 on.

    >>> float(evidence_of_larger_mean(torch.zeros(50), torch.tensor([0.0, 1.0]).repeat(20), 3.0))
    1.0
    """
    (mean, variance), (mean_trusted, variance_trusted) = (_mean_and_variance(values) for values in (train, trusted))
    error = (variance + variance_trusted).sqrt().clamp_min(1e-12)
    return ((mean_trusted - mean) / error - threshold).clamp(0, 1)


def class_factor(weight: Tensor, trusted: Tensor) -> Tensor:
    """p_trusted(y) / p_weighted(y), (C,), from the weight and the number of trusted samples of each class.

    It is shrunk towards one by pseudo-samples, and by James and Stein's rule: where the classes do not differ, the
    chi-square statistic is C - 1 on average.

    >>> class_factor(torch.tensor([30.0, 70.0]), torch.tensor([30.0, 70.0]))
    tensor([1., 1.])
    """
    weight = weight.clamp_min(0)
    expected = weight / weight.sum().clamp_min(1e-12) * trusted.sum()
    ratio = (trusted + PRIOR_SAMPLES) / (expected + PRIOR_SAMPLES)
    chi_square = ((trusted - expected).square() / expected.clamp_min(0.5)).sum()
    return ratio.pow((1 - (len(trusted) - 1) / chi_square.clamp_min(1e-6)).clamp_min(0))


def weights_by_class(
    losses: Tensor, classes: Tensor | None, trusted: Tensor, trusted_classes: Tensor | None, num_classes: int | None
) -> Tensor:
    """Importance weights (g,) of losses (g,): within each class by rank, times the ratio of the class's shares.

    ``trusted`` (m,) are the trusted losses. Elements without a class (-1) are compared with each other. The ratios
    are not sharpened: elements that are hard to predict, such as the pixels of an outline, are always the same ones.

    >>> losses = torch.cat([torch.linspace(0, 1, 60), torch.linspace(5, 6, 40)])
    >>> weights = weights_by_class(losses, None, torch.linspace(0, 1, 50), None, None)
    >>> [round(w, 1) for w in weights[[5, 90]].tolist()]
    [1.6, 0.0]
    """
    if classes is None or trusted_classes is None or num_classes is None:
        return rank_weights(losses, trusted, sharpen=False).at(losses)
    weights, numbers = torch.ones_like(losses), range(-1, num_classes)
    for number in numbers:
        member = classes == number
        own = (losses.where(member, torch.nan), trusted.where(trusted_classes == number, torch.nan))
        weights = torch.where(member, rank_weights(*own, sharpen=False).at(losses), weights)
    count = [
        torch.stack([((found == number) & values.isfinite()).sum() for number in numbers]).to(losses.dtype)
        for values, found in ((losses, classes), (trusted, trusted_classes))
    ]
    return weights * class_factor(*count)[classes + 1]


def num_parts(num_trusted: int) -> int:
    """In how many parts the ranks are divided: one for each trusted sample, from 4 to 100.

    >>> [num_parts(m) for m in (1, 50, 5000)]
    [4, 50, 100]
    """
    return min(max(num_trusted, 4), 100)


def decreasing(values: Tensor) -> Tensor:
    """argmin_x ||x - values||^2 subject to x_1 >= x_2 >= ... (isotonic regression): (K,).

    x_i = min over a <= i of max over b >= i of mean(values_a .. values_b), for all i at once.

    >>> decreasing(torch.tensor([3.0, 1.0, 2.0, 0.0]))
    tensor([3.0000, 1.5000, 1.5000, 0.0000])
    """
    total = torch.cat([values.new_zeros(1), values.cumsum(0)])
    number = torch.arange(len(values), device=values.device)
    length = number - number[:, None] + 1
    mean = (total[1:] - total[:-1, None]) / length
    largest = mean.where(length > 0, -torch.inf).flip(1).cummax(1).values.flip(1)
    return largest.where(length > 0, torch.inf).amin(0)


def _in_order(losses: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Losses (n,) in increasing order, infinite behind the finite ones, how many are finite, and that or one."""
    ordered = losses.where(is_finite(losses), torch.inf).sort().values
    number = (ordered < torch.inf).sum()
    return ordered, number, number.clamp_min(1)


def _finite_in_order(losses: Tensor) -> tuple[Tensor, int, int]:
    """``_in_order`` of losses (n,) that are all finite."""
    return losses.sort().values, len(losses), len(losses)


def _shares(
    ranked: Tensor,
    number: Tensor | int,
    count: Tensor | int,
    ordered: Tensor,
    number_trusted: Tensor | int,
    count_trusted: Tensor | int,
) -> tuple[Tensor, Tensor, Tensor | float]:
    """What tests of smaller trusted losses compare; the arguments are ``_in_order`` of training and trusted losses.

    The shares of the training losses and of the trusted ones that are at most as large as each trusted loss, (m,),
    and m n / (m + n), zero before any loss is known. Equal losses are no evidence.
    """
    at_most = torch.searchsorted(ranked, ordered, right=True) / count
    order = torch.arange(1, len(ordered) + 1, device=ordered.device)
    return at_most, order.clamp_max(count_trusted) / count_trusted, number * number_trusted / (count + count_trusted)


def _log_p_value(at_most: Tensor, trusted_at_most: Tensor, size: Tensor | float) -> Tensor:
    """About log of the p-value of the one-sided test of Berk and Jones, of ``_shares``.

    The statistic is S = m n / (m + n) max KL(f || u) over the shares u >= LOWEST of the training losses at which the
    share f of the trusted ones is larger; KL is that of two coins. Without a difference P(S > s) is about exp(1 - s)
    with 10 to 1,000 trusted samples. Where few labels are wrong, f differs from u in the upper tail only, and the
    test of Kolmogorov and Smirnov needs several times as many trusted samples.
    """
    u, f = at_most.clamp(LOWEST, 1 - 1e-4), trusted_at_most
    divergence = torch.xlogy(f, f / u) + torch.xlogy(1 - f, (1 - f) / (1 - u))
    return (1 - size * divergence.where(f > u, 0).amax()).clamp_max(0)


def _upper_bound(ratio: Tensor, expected: Tensor) -> Tensor:
    """Decreasing ratios (K,) of counts to ``expected``, plus one standard error.

    Parts with the same ratio are one part of the estimate. The variance of a count is the count, plus 1/4 so that a
    part without trusted samples has an error.
    """
    pooled = expected * ((ratio[:, None] - ratio).abs() < 1e-4).sum(1)
    found = ratio * pooled
    return (found + (found + 0.25).sqrt()) / pooled


def _mean_and_variance(values: Tensor) -> tuple[Tensor, Tensor]:
    """The mean of the finite values, and its variance, scalars."""
    finite = values.isfinite()
    count = finite.sum().clamp_min(2)
    mean = values.where(finite, 0).sum() / count
    return mean, (values - mean).square().where(finite, 0).sum() / (count * (count - 1))


def _part(number: Tensor, count: Tensor, parts: int) -> Tensor:
    """The part of the rank ``number`` / ``count``."""
    return (number * parts // count).clamp_max(parts - 1)
