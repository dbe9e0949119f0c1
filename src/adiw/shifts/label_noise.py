"""What every kind of label noise shares: who flips, and the importance of who did not."""

from __future__ import annotations

import torch
from torch import Tensor

from adiw.shifts.shifted import Shifted

__all__ = ["check_rate", "flip_labels"]


def check_rate(rate: float) -> None:
    """Refuse a flip rate outside [0, 1).

    >>> check_rate(1.0)
    Traceback (most recent call last):
    ValueError: rate: expected 0 <= rate < 1, came 1.0; 0.4 flips four labels in ten
    """
    if not 0 <= rate < 1:
        raise ValueError(f"rate: expected 0 <= rate < 1, came {rate}; 0.4 flips four labels in ten")


def flip_labels(y: Tensor, other: Tensor, rate: float, trusted: Tensor, generator: torch.Generator) -> Shifted:
    """Replace y_i by ``other_i`` with probability ``rate``, drawn per sample; trusted samples never flip.

    A training sample is clean with probability 1 - rate (1 - t/n), because t of the n are trusted. A wrong
    label has no mass under the test distribution, so

        w_i = 1[clean] / (1 - rate (1 - t/n)).

    Args:
        y: ``(n,)`` int64 true labels.  other: ``(n,)`` int64, different from y everywhere.
        trusted: ``(t,)`` int64 indices, ascending.

    >>> y = torch.zeros(8, dtype=torch.int64)
    >>> shifted = flip_labels(y, y + 1, 0.5, torch.arange(4), torch.Generator().manual_seed(0))
    >>> shifted.y, shifted.true_weights.max()  # 1 / (1 - 0.5 * 0.5)
    (tensor([0, 0, 0, 0, 1, 0, 1, 0]), tensor(1.3333))
    """
    n = len(y)
    flip = (torch.rand(n, generator=generator, device=generator.device) < rate).to(y.device)
    flip[trusted] = False
    clean_share = 1 - rate * (1 - len(trusted) / n)
    return Shifted(
        keep=torch.arange(n, device=y.device),
        y=torch.where(flip, other, y),
        true_y=y.clone(),
        trusted=trusted,
        true_weights=(~flip).to(torch.float32) / clean_share,
    )
