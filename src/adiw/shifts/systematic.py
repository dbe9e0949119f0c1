"""Unequal chances, and yet a fixed number of samples."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["systematic"]


def systematic(chance: Tensor, generator: torch.Generator) -> Tensor:
    """Draw each i with probability exactly ``chance_i``; how many are drawn is fixed.

    Systematic sampling in random order: steps of length chance_i lead on from u ~ U(0, 1), and i is drawn
    when its step crosses an integer. The number drawn is sum(chance), rounded down or up. ``(n,)`` to ``(n,)``
    bool.

    >>> systematic(torch.full((10,), 0.3), torch.Generator().manual_seed(0)).sum()
    tensor(3)
    """
    order = torch.randperm(len(chance), generator=generator, device=generator.device).to(chance.device)
    start = torch.rand(1, generator=generator, device=generator.device, dtype=torch.float64)
    steps = torch.cat([start.to(chance.device), chance[order].double()])
    passed = steps.cumsum(0).floor()
    drawn = torch.zeros(len(chance), dtype=torch.bool, device=chance.device)
    drawn[order] = passed[1:] > passed[:-1]
    return drawn
