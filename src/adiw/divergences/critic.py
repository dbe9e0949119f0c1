"""The critic network of the Wasserstein-1 distance: a ReLU network dim-64-64-groups as one flat vector.

Its parameters and Adam's moments are four tensors, so that they travel in a state dict and an update is a few
tensor operations without host synchronisation. Each group (class) has an output of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Generator, Tensor

from adiw.pair import Pair

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
    (w1, b1), (w2, b2), (w3, b3) = _split(theta, z.shape[1], num_groups)
    hidden = torch.relu(torch.relu(z @ w1 + b1) @ w2 + b2)
    own = group.clamp_min(0)
    return (hidden * w3.T[own]).sum(1) + b3[own]


def slope(theta: Tensor, z: Tensor, group: Tensor, num_groups: int) -> Tensor:
    """||grad_z Phi(z)||, (n,), differentiable in theta.

    The active units are constant between the kinks of a ReLU network, so the gradient is a product of the weight
    matrices: no second derivative is needed to differentiate it.
    """
    (w1, b1), (w2, b2), (w3, _) = _split(theta, z.shape[1], num_groups)
    first = z @ w1 + b1
    second = torch.relu(first) @ w2 + b2
    back = (second > 0) * w3.T[group.clamp_min(0)]
    back = (first > 0) * (back @ w2.T)
    return ((back @ w1.T).square().sum(1) + torch.finfo(theta.dtype).tiny).sqrt()


def loss(
    theta: Tensor, pair: Pair, unit: float | Tensor, weights: Tensor, penalty: Tensor, between: Tensor
) -> Tensor:
    """E_w[Phi] - E_val[Phi] + penalty E[(||grad Phi|| - 1)^2], the mean over the groups   (Eq. ADIW_wa_reg)."""
    groups = pair.num_groups
    phi_train = evaluate(theta, pair.z_train / unit, pair.group_train, groups)
    phi_val = evaluate(theta, pair.z_val / unit, pair.group_val, groups)
    gap = pair.sum_train(weights * phi_train) / pair.num_train - pair.sum_val(phi_val) / pair.num_val
    used = pair.used_train.to(theta.dtype)
    uneven = (slope(theta, between / unit, pair.group_train, groups) - 1).square()
    return gap.mean() + penalty * (used * uneven).sum() / used.sum().clamp_min(1)


def interpolate(pair: Pair, weights: Tensor, generator: Generator) -> Tensor:
    """Points on the lines between validation samples and training samples of their group, (n, dim).

    Each training sample is replaced by one drawn from its group in proportion to the weights, and joined to a
    validation sample of that group drawn at random.
    """
    n, m = len(pair.z_train), len(pair.z_val)

    def uniform(columns: int) -> Tensor:
        like = pair.z_train
        return torch.rand(n, columns, generator=generator, dtype=like.dtype, device=like.device)

    # argmax of log(w) - log(-log(u)) draws in proportion to w (the Gumbel trick): no host synchronisation.
    # A group whose weights are all zero draws uniformly: the smallest number keeps its rows apart from other groups.
    gumbel = weights.clamp_min(torch.finfo(weights.dtype).tiny).log() - (-uniform(n).log()).log()
    drawn = torch.where(pair.same("train", "train"), gumbel, -torch.inf).argmax(1)
    joined = torch.where(pair.same("train", "val"), uniform(m), -1).argmax(1)
    part = uniform(1)
    return part * pair.z_val[joined] + (1 - part) * pair.z_train[drawn]


def update(
    pair: Pair,
    unit: float | Tensor,
    weights: Tensor,
    memory: Mapping[str, Tensor],
    penalty: Tensor,
    learning_rate: float,
    generator: Generator,
) -> dict[str, Tensor]:
    """One step of Adam (betas 0.9 and 0.999) on the critic's loss."""
    between = interpolate(pair, weights, generator)
    with torch.enable_grad():
        theta = memory["theta"].detach().requires_grad_()
        (gradient,) = torch.autograd.grad(loss(theta, pair, unit, weights, penalty, between), theta)
    gradient = torch.where(gradient.square().isfinite().all(), gradient, 0)  # a wild sample must not end the critic
    updates = memory["updates"] + 1
    mean = memory["mean"].lerp(gradient, 0.1)
    square = memory["square"].lerp(gradient.square(), 0.001)
    count = updates.double()  # 1 - 0.999 in float32 has four digits
    unbiased = (square / (1 - 0.999**count).to(square.dtype)).sqrt() + 1e-8
    step = learning_rate / (1 - 0.9**count).to(mean.dtype) * mean / unbiased
    return {**memory, "theta": memory["theta"] - step, "mean": mean, "square": square, "updates": updates}


def _layers(dim: int, num_groups: int) -> list[tuple[int, int]]:
    return [(dim, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, num_groups)]


def _split(theta: Tensor, dim: int, num_groups: int) -> list[tuple[Tensor, Tensor]]:
    """The flat vector as (weight (in, out), bias (out,)) of each layer."""
    layers = _layers(dim, num_groups)
    pieces = torch.split(theta, [(fan_in + 1) * fan_out for fan_in, fan_out in layers])
    return [
        (piece[: fan_in * fan_out].view(fan_in, fan_out), piece[fan_in * fan_out :])
        for piece, (fan_in, fan_out) in zip(pieces, layers, strict=True)
    ]
