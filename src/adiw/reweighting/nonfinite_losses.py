"""Losses that are not finite: a warning counts and names them. ``step.zero_gradient`` excludes them."""

from __future__ import annotations

from torch import Tensor

from adiw.reweighting.summary import name_indices
from adiw.user_code import warn_user


def warn_of_nonfinite(kind: str, counts: Tensor, warned: dict[str, int], named: bool = True) -> int:
    """Warn of samples whose loss was not finite, so often as ``counts`` (n,) says: their sum.

    The warning is repeated each time that the sum has doubled since the one in ``warned``, by ``kind``.
    """
    total = int(counts.sum())
    if total and total >= 2 * warned.get(kind, 0):
        warned[kind] = total
        names = f"; {kind} samples: {name_indices(counts)}" if named else ""
        warn_user(f"{total} {kind} losses so far were not finite and were excluded{names}")
    return total
