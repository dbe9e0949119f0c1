"""The critic network of the Wasserstein-1 distance: a ReLU network dim-64-64-groups as one flat vector.

Its parameters and Adam's moments are four tensors, so that they travel in a state dict and an update is a few
tensor operations without host synchronisation. Each group (class) has an output of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Generator, Tensor

from adiw.matching.batches import MatchedBatches, is_finite
from adiw.matching.groups import per_sample
from adiw.matching.limits import NEGLIGIBLE

HIDDEN = 64


def start(dim: int, num_groups: int, like: Tensor, generator: Generator) -> dict[str, Tensor]:
    """A fresh critic: uniform in +-1 / sqrt(fan in), as PyTorch's linear layers start."""
    pieces = []
    for fan_in, fan_out in _layers(dim, num_groups):
        uniform = torch.rand((fan_in + 1) * fan_out, generator=generator, dtype=like.dtype, device=like.device)
        pieces.append((2 * uniform - 1) / fan_in**0.5)
    theta = torch.cat(pieces)
    zero = torch.zeros((), dtype=torch.long, device=like.device)
    return {
        "theta": theta,
        "mean": torch.zeros_like(theta),
        "square": torch.zeros_like(theta),
        "updates": zero,
        "batches": zero.clone(),
    }


def evaluate(theta: Tensor, z: Tensor, group: Tensor, num_groups: int) -> Tensor:
    """Phi(z) of each sample's own group, (n,), for z (n, dim)."""
    first, second, third = _split(theta, z.shape[1], num_groups)
    outputs = third.of(torch.relu(second.of(torch.relu(first.of(z)))))
    return outputs.gather(1, group.clamp_min(0)[:, None])[:, 0]


@dataclass(frozen=True)
class Loss:
    """E_w[Phi] - E_val[Phi], the mean over the groups, + penalty E[(||grad Phi|| - 1)^2]   (Eq. ADIW_wa_reg).

    The last mean is over points between the samples, one for each training sample that takes part, of all groups.
    """

    z: Tensor  # (n + m, dim) of both batches, in units
    outputs: Tensor  # (n + m + n, num_groups) the factor of Phi at z, then one for the output that a point asks for
    share: Tensor  # (n, 1) the factor of each point's penalty

    @classmethod
    def build(cls, batches: MatchedBatches, unit: float | Tensor, weights: Tensor, penalty: Tensor) -> Loss:
        z, used = torch.cat([batches.z_train, batches.z_val]) / unit, batches.used_train.to(weights.dtype)
        on_train = weights * used / per_sample(batches.num_train, batches.of_train)
        factors = torch.cat(
            [on_train / batches.num_groups, -batches.share_val / batches.num_groups, torch.ones_like(weights)]
        )
        group = torch.cat([batches.group_train, batches.group_val, batches.group_train])
        own = group[:, None] == torch.arange(batches.num_groups, device=z.device)
        return cls(z, own * factors[:, None], (penalty * used / used.sum().clamp_min(1))[:, None])

    def gradient(self, theta: Tensor, points: Tensor) -> Tensor:
        """By theta, with these ``points`` (n, dim) between the samples, in units too.

        A ReLU network is linear between its kinks, so its slope is a product of the weights of the units that are on.
        What flows down from the outputs meets what came up at z. At the points it becomes the slope itself, and what
        the penalty makes of that goes up again through the same units.
        """
        first, second, third = _split(theta, points.shape[1], self.outputs.shape[1])
        count, z = len(self.z), torch.cat([self.z, points])
        one = torch.relu(first.of(z))
        two = torch.relu(second.of(one))
        on_one, on_two = one > 0, two > 0
        down_two = (self.outputs @ third.weight.T) * on_two
        down_one = (down_two @ second.weight.T) * on_one
        slope = down_one[count:] @ first.weight.T
        length = (slope.square().sum(1, keepdim=True) + torch.finfo(slope.dtype).tiny).sqrt()
        up = 2 * self.share * (1 - 1 / length) * slope
        up_one = (up @ first.weight) * on_one[count:]
        up_two = (up_one @ second.weight) * on_two[count:]
        parts: list[Tensor] = []
        for came, went_up, down in ((z, up, down_one), (one, up_one, down_two), (two, up_two, self.outputs)):
            parts += [(torch.cat([came[:count], went_up]).T @ down).flatten(), down[:count].sum(0)]
        return torch.cat(parts)


def interpolate(batches: MatchedBatches, weights: Tensor, times: int, generator: Generator) -> Tensor:
    """Points on the lines between validation samples and training samples of their group, (times, n, dim).

    Each training sample is replaced by one drawn from its group in proportion to the weights, and joined to a
    validation sample of that group drawn at random.
    """
    n, z = len(batches.z_train), batches.z_train
    at, other, part = torch.rand(3, n, times, generator=generator, dtype=torch.float64, device=z.device)
    # The smallest mass is for a group whose weights are all zero: it draws uniformly, and from itself.
    drawn = _draw(weights.clamp_min(NEGLIGIBLE), batches, "train", at)
    joined = _draw(torch.ones_like(batches.z_val[:, 0]), batches, "val", other)
    return torch.lerp(z[drawn], batches.z_val[joined], part.T[..., None].to(z.dtype))


def _draw(mass: Tensor, batches: MatchedBatches, side: Literal["train", "val"], at: Tensor) -> Tensor:
    """Positions (times, n) of samples of one side, drawn in proportion to ``mass`` from each training sample's group.

    ``at`` (n, times) are random numbers: each is looked up in the running sum of the masses, in double precision, so
    that rounding lets next to none fall on a sample without mass. Who is left out gets anybody.
    """
    used = batches.used_train if side == "train" else batches.used_val
    open_to = used[None] if batches.num_groups == 1 else batches.same("train", side)  # (1 or n, samples of the side)
    running = torch.where(open_to, mass.double(), 0).cumsum(1)
    found = torch.searchsorted(running, at.view(len(running), -1) * running[:, -1:], right=True)
    return found.clamp_max(len(mass) - 1).view_as(at).T


def learn(
    batches: MatchedBatches,
    unit: float | Tensor,
    weights: Tensor,
    memory: Mapping[str, Tensor],
    penalty: Tensor,
    updates: int,
    learning_rate: float,
    generator: Generator,
) -> dict[str, Tensor]:
    """``updates`` steps of Adam (betas 0.9 and 0.999) on the critic's loss, with new points for each."""
    loss = Loss.build(batches, unit, weights, penalty)
    theta, mean, square = (memory[name] for name in ("theta", "mean", "square"))
    steps = memory["updates"] + torch.arange(1, updates + 1, device=theta.device)
    rates = (learning_rate / (1 - 0.9 ** steps.double())).to(theta.dtype)
    unbiased = (1 / (1 - 0.999 ** steps.double())).to(theta.dtype)  # 1 - 0.999 in float32 has four digits
    for step, points in enumerate(interpolate(batches, weights, updates, generator) / unit):
        gradient = loss.gradient(theta, points)
        sound = is_finite(gradient.dot(gradient))  # a wild sample must not end the critic
        gradient = torch.where(sound, gradient, 0)
        mean = mean.lerp(gradient, 0.1)
        square = square.lerp(gradient.square(), 0.001)
        theta = theta.addcdiv(rates[step] * mean, (unbiased[step] * square).sqrt() + 1e-8, value=-1)
    return {**memory, "theta": theta, "mean": mean, "square": square, "updates": memory["updates"] + updates}


class _Layer(NamedTuple):
    weight: Tensor  # (in, out)
    bias: Tensor  # (out,)

    def of(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x, self.weight)


def _layers(dim: int, num_groups: int) -> list[tuple[int, int]]:
    return [(dim, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, num_groups)]


def _split(theta: Tensor, dim: int, num_groups: int) -> list[_Layer]:
    """The layers of the flat vector."""
    layers = _layers(dim, num_groups)
    pieces = torch.split(theta, [(fan_in + 1) * fan_out for fan_in, fan_out in layers])
    return [
        _Layer(piece[: fan_in * fan_out].view(fan_in, fan_out), piece[fan_in * fan_out :])
        for piece, (fan_in, fan_out) in zip(pieces, layers, strict=True)
    ]
