"""Limits on the weights of a batch: mean, largest weight, effective sample size."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from adiw.argument_checks import check_vector, is_number, is_real

NEGLIGIBLE = 1e-24  # too small to change a mean, but times a gradient of 1e-7 still a normal float32 number


@dataclass(frozen=True)
class Limits:
    """Limits on the weights in the loss. The estimates are stored without them.

    Args:
        mean_one: rescale so that the mean weight of the batch is one, so that weighting does not change the learning
            rate.
        cap: largest weight; with ``mean_one`` the excess is distributed over the other samples in proportion.
        min_ess: smallest effective sample size (sum w)^2 / sum w^2, as a fraction of the batch from 0 to 1, reached
            by mixing the weights with their mean.
    """

    mean_one: bool = False
    cap: float | None = None
    min_ess: float = 0.0

    def __post_init__(self) -> None:
        if self.cap is not None and not (is_real(self.cap) and self.cap >= 1):
            raise ValueError(f"cap must be None or at least 1, the mean weight, got {self.cap!r}")
        if not (is_number(self.min_ess, least=0) and self.min_ess <= 1):
            raise ValueError(f"min_ess is a fraction of the batch and must be from 0 to 1, got {self.min_ess!r}")

    def apply(self, weights: Tensor, included: Tensor | None = None) -> Tensor:
        """The weights (n,) of a batch, within the limits.

        Means and sizes are over the ``included`` samples, (n,) booleans, by default all.

        >>> Limits(mean_one=True, cap=2.0).apply(torch.tensor([0.0, 1.0, 1.0, 9.0]))
        tensor([0., 1., 1., 2.])
        """
        check_vector("weights", weights)
        cap = float("inf") if self.cap is None else min(self.cap, torch.finfo(weights.dtype).max)
        if self.mean_one:
            weights = rescale_to_mean_one(weights, cap, included)
        elif self.cap is not None:
            weights = weights.clamp_max(cap)
        return raise_ess(weights, self.min_ess, included) if self.min_ess > 0 else weights


def rescale_to_mean_one(weights: Tensor, cap: float, included: Tensor | None = None) -> Tensor:
    """min(s w, cap), (n,), with the s that makes the mean one; without such an s, positive weights become the cap.

    With the k largest weights at the cap, s = (n - k cap) / (sum of the others). The smallest k is chosen whose s
    keeps the next weight below the cap.

    >>> rescale_to_mean_one(torch.tensor([1.0, 3.0]), cap=float("inf"))
    tensor([0.5000, 1.5000])
    """
    included = torch.ones_like(weights, dtype=torch.bool) if included is None else included
    largest, positive = torch.where(included, weights, 0).max(), weights > 0
    # Only ratios matter, and the reciprocal of the smallest numbers is infinite.
    weights = weights / torch.where(largest > 0, largest, 1)
    n, kept = included.sum().to(weights.dtype), torch.where(included, weights, 0)
    if cap == float("inf"):
        total = kept.sum()
        return torch.where(total > 0, weights * n / torch.where(total > 0, total, 1), weights)
    ordered = kept.sort(descending=True).values
    others = ordered.flip(0).cumsum(0).flip(0)  # sum of the k-th and all smaller weights
    at_cap = torch.arange(len(weights), device=weights.device, dtype=weights.dtype) * cap
    scale = (n - at_cap) / torch.where(others > 0, others, 1)
    fits = (others > 0) & (scale >= 0) & (scale * ordered <= cap * (1 + torch.finfo(weights.dtype).eps))
    chosen = scale.index_select(0, fits.to(torch.uint8).argmax().view(1))
    scaled = (chosen * weights).clamp_max(cap)
    return torch.where(fits.any(), scaled, torch.where(positive, torch.full_like(weights, cap), 0))


def raise_ess(weights: Tensor, share: float, included: Tensor | None = None) -> Tensor:
    """Mix the weights with their mean until (sum w)^2 / sum w^2 >= share n. The mean does not change.

    For w = mean + d the mixture mean + (1 - a) d has the effective size n mean^2 / (mean^2 + (1 - a)^2 var).

    >>> mixed = raise_ess(torch.tensor([0.0, 0.0, 0.0, 4.0]), share=0.5)
    >>> round(float(effective_sample_size(mixed)), 4)
    2.0
    """
    included = torch.ones_like(weights, dtype=torch.bool) if included is None else included
    n = included.sum().clamp_min(1)
    mean = torch.where(included, weights, 0).sum() / n
    variance = torch.where(included, (weights - mean).square(), 0).sum() / n
    allowed = mean.square() * (1 / share - 1)
    keep = (allowed / torch.where(variance > 0, variance, 1)).sqrt().clamp_max(1)
    return mean + torch.where(variance > 0, keep, 1) * (weights - mean)


def effective_sample_size(weights: Tensor) -> Tensor:
    """(sum w)^2 / sum w^2 of weights (n,): from 1 to n, or zero if all weights are zero.

    >>> effective_sample_size(torch.tensor([1.0, 1.0, 0.0]))
    tensor(2.)
    """
    square = weights.square().sum()
    return torch.where(square > 0, weights.sum().square() / torch.where(square > 0, square, 1), 0)
