"""Limits on the weights of a batch: mean, largest weight, effective sample size."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Limits:
    """What the weights that reach the loss must satisfy; the estimate itself is kept without them.

    Args:
        mean_one: rescale so that the mean weight of the batch is one (the learning rate then means what it says).
        cap: largest weight; together with ``mean_one`` the capped excess goes to the other samples in proportion.
        min_ess: smallest effective sample size (sum w)^2 / sum w^2, as a share of the batch from 0 to 1, reached by
            mixing the weights with their mean.
    """

    mean_one: bool = False
    cap: float | None = None
    min_ess: float = 0.0

    def __post_init__(self) -> None:
        if self.cap is not None and self.cap < 1:
            raise ValueError(f"cap must be None or at least 1, the mean weight, got {self.cap!r}")
        if not 0 <= self.min_ess <= 1:
            raise ValueError(f"min_ess is a share of the batch and must be from 0 to 1, got {self.min_ess!r}")

    def apply(self, weights: Tensor) -> Tensor:
        """The weights (n,) of a batch, within the limits.

        >>> Limits(mean_one=True, cap=2.0).apply(torch.tensor([0.0, 1.0, 1.0, 9.0]))
        tensor([0., 1., 1., 2.])
        """
        if self.mean_one:
            weights = rescale_to_mean_one(weights, float("inf") if self.cap is None else self.cap)
        elif self.cap is not None:
            weights = weights.clamp_max(self.cap)
        return raise_ess(weights, self.min_ess) if self.min_ess > 0 else weights


def rescale_to_mean_one(weights: Tensor, cap: float) -> Tensor:
    """min(s w, cap) with the one s that makes the mean one; where no s does (too many zeros), all others at the cap.

    With the k largest weights at the cap, s = (n - k cap) / (sum of the others); the right k is the first whose s
    keeps the next weight under the cap.

    >>> rescale_to_mean_one(torch.tensor([1.0, 3.0]), cap=float("inf"))
    tensor([0.5000, 1.5000])
    """
    n = len(weights)
    if cap == float("inf"):
        total = weights.sum()
        return torch.where(total > 0, weights * n / torch.where(total > 0, total, 1), weights)
    ordered = weights.sort(descending=True).values
    others = ordered.flip(0).cumsum(0).flip(0)  # sum of the weights from the k-th on
    at_cap = torch.arange(n, device=weights.device, dtype=weights.dtype) * cap
    scale = (n - at_cap) / torch.where(others > 0, others, 1)
    fits = (others > 0) & (scale >= 0) & (scale * ordered <= cap * (1 + torch.finfo(weights.dtype).eps))
    chosen = scale[fits.to(torch.uint8).argmax(0, keepdim=True)]  # a 0-d index would be read by the host
    scaled = (chosen * weights).clamp_max(cap)
    return torch.where(fits.any(), scaled, (weights > 0).to(weights.dtype) * cap)


def raise_ess(weights: Tensor, share: float) -> Tensor:
    """Mix the weights with their mean until (sum w)^2 / sum w^2 >= share n. The mean does not change.

    For w = mean + d the mixture mean + (1 - a) d has the effective size n mean^2 / (mean^2 + (1 - a)^2 var).

    >>> round(float(effective_sample_size(raise_ess(torch.tensor([0.0, 0.0, 0.0, 4.0]), share=0.5))), 4)
    2.0
    """
    mean = weights.mean()
    variance = (weights - mean).square().mean()
    allowed = mean.square() * (1 / share - 1)
    keep = (allowed / torch.where(variance > 0, variance, 1)).sqrt().clamp_max(1)
    return mean + torch.where(variance > 0, keep, 1) * (weights - mean)


def effective_sample_size(weights: Tensor) -> Tensor:
    """(sum w)^2 / sum w^2, from 1 to n; zero when all weights are.

    >>> effective_sample_size(torch.tensor([1.0, 1.0, 0.0]))
    tensor(2.)
    """
    square = weights.square().sum()
    return torch.where(square > 0, weights.sum().square() / torch.where(square > 0, square, 1), 0)
