"""Sampling that prefers one side of the data: each sample's chance, and the importance that undoes it."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["check_inputs", "check_strength", "importance", "keep_chance"]


def check_strength(strength: float) -> None:
    """Refuse what is not a finite number; zero is no shift, a negative strength prefers the other side.

    >>> check_strength(float("nan"))
    Traceback (most recent call last):
    ValueError: strength: expected a finite number, came nan; 2.0 is a clear shift
    """
    if not math.isfinite(strength):
        raise ValueError(f"strength: expected a finite number, came {strength}; 2.0 is a clear shift")


def check_inputs(x: Tensor | None, y: Tensor) -> Tensor:
    """The inputs, which this kind of shift cannot do without: ``(n, ...)``, as many as labels.

    >>> check_inputs(None, torch.zeros(3))
    Traceback (most recent call last):
    ValueError: x: expected the inputs (n, ...), came None; this shift samples by them, so pass x=
    """
    if x is None:
        raise ValueError("x: expected the inputs (n, ...), came None; this shift samples by them, so pass x=")
    if len(x) != len(y):
        raise ValueError(f"x: expected as many inputs as labels, {len(y)}, came {len(x)}; pass the same samples")
    return x


def keep_chance(score: Tensor, strength: float) -> Tensor:
    """P_i(keep) = sigmoid(strength * s_i) / max_j sigmoid(strength * s_j): ``(n,)`` to ``(n,)``.

    >>> [round(p, 2) for p in keep_chance(torch.tensor([-1.0, 0.0, 1.0]), 2.0).tolist()]
    [0.14, 0.57, 1.0]
    """
    # The log keeps the ratio exact where every sigmoid is tiny.
    log_chance = torch.nn.functional.logsigmoid(strength * score)
    return (log_chance - log_chance.max()).exp()


def importance(chance: Tensor, trusted: int, kept: Tensor) -> Tensor:
    """The importance of samples that are kept with ``chance``, or because they are trusted.

    Any sample is one of the t trusted with probability t/n and otherwise kept with P(keep), so that it is in
    the training set with probability

        q_i = t/n + (1 - t/n) P_i(keep),    w_i = (1 / q_i) / mean_{j kept} (1 / q_j).

    Args:
        chance: ``(n,)`` P(keep).  trusted: t.  kept: ``(n,)`` bool, at least one.

    >>> [round(w, 2) for w in importance(torch.tensor([1.0, 0.25]), 0, torch.tensor([True, True])).tolist()]
    [0.4, 1.6]
    """
    share = trusted / len(chance)
    inverse = 1 / (share + (1 - share) * chance)
    return inverse / inverse[kept].mean()
