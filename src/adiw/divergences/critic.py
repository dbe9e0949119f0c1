"""The critic network of the Wasserstein-1 distance, and the gradient of its loss.

It is a ReLU network with two hidden layers of 64 units and one output per group (class). Its parameters are one flat
vector ``theta``, so that an update is a few tensor operations without host synchronisation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from adiw.matching.batches import MatchedBatches
from adiw.matching.groups import per_sample

HIDDEN = 64


def start(dim: int, num_groups: int, like: Tensor, generator: Generator) -> dict[str, Tensor]:
    """The memory of a new critic: its parameters, initialised as ``nn.Linear`` does, and the state of Adam."""
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
    """Phi(z) from the output of each sample's group, (n,), for z (n, dim)."""
    first, second, third = _split(theta, z.shape[1], num_groups)
    outputs = third(torch.relu(second(torch.relu(first(z)))))
    return outputs.gather(1, group.clamp_min(0)[:, None])[:, 0]


@dataclass(frozen=True)
class Loss:
    """E_w[Phi] - E_val[Phi], averaged over the groups, + penalty E[(||grad Phi|| - 1)^2]   (Eq. ADIW_wa_reg).

    The last mean is over interpolated points, one for each included training sample of any group.
    """

    z: Tensor  # (n + m, dim) of both batches, divided by the unit
    outputs: Tensor  # (n + m + n, num_groups) derivative of the loss by the outputs at z; a one-hot row per point
    share: Tensor  # (n, 1) factor of each point's penalty

    @classmethod
    def build(cls, batches: MatchedBatches, unit: float | Tensor, weights: Tensor, penalty: Tensor) -> Loss:
        """The loss for weights (n,) and a scalar penalty."""
        z, used = torch.cat([batches.z_train, batches.z_val]) / unit, batches.included_train.to(weights.dtype)
        on_train = weights * used / per_sample(batches.num_train, batches.membership_train)
        factors = torch.cat(
            [on_train / batches.num_groups, -batches.share_val / batches.num_groups, torch.ones_like(weights)]
        )
        group = torch.cat([batches.group_train, batches.group_val, batches.group_train])
        own = group[:, None] == torch.arange(batches.num_groups, device=z.device)
        return cls(z, own * factors[:, None], (penalty * used / used.sum().clamp_min(1))[:, None])

    def gradient(self, theta: Tensor, points: Tensor) -> Tensor:
        """d loss / d theta, for interpolated ``points`` (n, dim), divided by the unit as well.

        A ReLU network is linear on each region of its input, so its slope is a product of the weights of the active
        units. One backward pass gives the derivative at z and the slopes at the points. One forward pass through the
        same active units gives the derivative of the penalty, as tangents.
        """
        first, second, third = _split(theta, points.shape[1], self.outputs.shape[1])
        count, z = len(self.z), torch.cat([self.z, points])
        hidden_1 = torch.relu(first(z))
        hidden_2 = torch.relu(second(hidden_1))
        active_1, active_2 = hidden_1 > 0, hidden_2 > 0
        back_2 = (self.outputs @ third.weight.T) * active_2
        back_1 = (back_2 @ second.weight.T) * active_1
        slope = back_1[count:] @ first.weight.T
        length = (slope.square().sum(1, keepdim=True) + torch.finfo(slope.dtype).tiny).sqrt()
        by_slope = 2 * self.share * (1 - 1 / length) * slope
        tangent_1 = (by_slope @ first.weight) * active_1[count:]
        tangent_2 = (tangent_1 @ second.weight) * active_2[count:]
        parts: list[Tensor] = []
        layers = ((z, by_slope, back_1), (hidden_1, tangent_1, back_2), (hidden_2, tangent_2, self.outputs))
        for inputs, tangent, back in layers:
            parts += [(torch.cat([inputs[:count], tangent]).T @ back).flatten(), back[:count].sum(0)]
        return torch.cat(parts)


class _Layer(NamedTuple):
    weight: Tensor  # (in, out)
    bias: Tensor  # (out,)

    def __call__(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x, self.weight)


def _layers(dim: int, num_groups: int) -> list[tuple[int, int]]:
    """(fan in, fan out) of each layer."""
    return [(dim, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, num_groups)]


def _split(theta: Tensor, dim: int, num_groups: int) -> list[_Layer]:
    """The layers of the flat vector."""
    layers = _layers(dim, num_groups)
    pieces = torch.split(theta, [(fan_in + 1) * fan_out for fan_in, fan_out in layers])
    return [
        _Layer(piece[: fan_in * fan_out].view(fan_in, fan_out), piece[fan_in * fan_out :])
        for piece, (fan_in, fan_out) in zip(pieces, layers, strict=True)
    ]
