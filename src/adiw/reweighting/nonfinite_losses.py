"""Losses that are not finite: a warning counts and names them. ``step.zero_gradient`` excludes them."""

from __future__ import annotations

import warnings

from torch import Tensor

from adiw.reweighting.summary import name_indices


def warn_of_nonfinite(kind: str, counts: Tensor, warned: dict[str, int], named: bool = True) -> int:
    """Warn of samples whose loss was not finite, so often as ``counts`` (n,) says: their sum.

    The warning is repeated each time that the sum has doubled since the one in ``warned``, by ``kind``.
    """
    total = int(counts.sum())
    if total and total >= 2 * warned.get(kind, 0):
        warned[kind] = total
        names = f"; {kind} samples: {name_indices(counts)}" if named else ""
        warnings.warn(
            f"{total} {kind} losses so far were not finite and were excluded{names}",
            stacklevel=4,  # the caller of the method's summary()
        )
    return total
