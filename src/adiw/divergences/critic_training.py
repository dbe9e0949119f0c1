"""Training of the critic network: points for the gradient penalty, and Adam."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Generator, Tensor

from adiw.divergences.critic import Loss
from adiw.matching.batches import MatchedBatches, is_finite
from adiw.matching.weight_limits import NEGLIGIBLE


def train(
    batches: MatchedBatches,
    unit: float | Tensor,
    weights: Tensor,
    memory: Mapping[str, Tensor],
    penalty: Tensor,
    updates: int,
    learning_rate: float,
    generator: Generator,
) -> dict[str, Tensor]:
    """``updates`` steps of Adam (betas 0.9 and 0.999) on the critic's loss, each with new interpolated points."""
    loss = Loss.build(batches, unit, weights, penalty)
    theta, mean, square = (memory[name] for name in ("theta", "mean", "square"))
    steps = memory["updates"] + torch.arange(1, updates + 1, device=theta.device)
    rates = (learning_rate / (1 - 0.9 ** steps.double())).to(theta.dtype)
    unbiased = (1 / (1 - 0.999 ** steps.double())).to(theta.dtype)  # in float32, 1 - 0.999 has only four digits
    for step, points in enumerate(interpolate(batches, weights, updates, generator) / unit):
        gradient = loss.gradient(theta, points)
        finite = is_finite(gradient.dot(gradient))  # an extreme sample may make it overflow: then it counts as zero
        gradient = torch.where(finite, gradient, 0)
        mean = mean.lerp(gradient, 0.1)
        square = square.lerp(gradient.square(), 0.001)
        theta = theta.addcdiv(rates[step] * mean, (unbiased[step] * square).sqrt() + 1e-8, value=-1)
    return {**memory, "theta": theta, "mean": mean, "square": square, "updates": memory["updates"] + updates}


def interpolate(batches: MatchedBatches, weights: Tensor, times: int, generator: Generator) -> Tensor:
    """Random points on lines between a training and a validation sample of one group, (times, n, dim).

    For each training sample, both ends are drawn from its group: the training end in proportion to the weights, the
    validation end uniformly.
    """
    n, z = len(batches.z_train), batches.z_train
    at_train, at_val, share = torch.rand(3, n, times, generator=generator, dtype=torch.float64, device=z.device)
    # Clamped so that a group whose weights are all zero draws uniformly from its own samples.
    train_end = _draw(weights.clamp_min(NEGLIGIBLE), batches, "train", at_train)
    val_end = _draw(torch.ones_like(batches.z_val[:, 0]), batches, "val", at_val)
    return torch.lerp(z[train_end], batches.z_val[val_end], share.T[..., None].to(z.dtype))


def _draw(mass: Tensor, batches: MatchedBatches, side: Literal["train", "val"], at: Tensor) -> Tensor:
    """Positions (times, n) of samples of one side, drawn from each training sample's group in proportion to ``mass``.

    The uniform numbers ``at`` (n, times) are looked up in the running sum of the masses, in double precision, so that
    rounding hardly ever selects a sample without mass. For an excluded training sample the result is arbitrary.
    """
    used = batches.included_train if side == "train" else batches.included_val
    allowed = used[None] if batches.num_groups == 1 else batches.same("train", side)  # (1 or n, samples of the side)
    running = torch.where(allowed, mass.double(), 0).cumsum(1)
    found = torch.searchsorted(running, at.view(len(running), -1) * running[:, -1:], right=True)
    return found.clamp_max(len(mass) - 1).view_as(at).T
