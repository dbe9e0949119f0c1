"""No simulated shift, for data that are already shifted."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from adiw.shifts.shift import Shifted, check_labels
from adiw.shifts.trusted import draw_trusted, trusted_count


@dataclass(frozen=True)
class NoShift:
    """No simulated shift: all samples and labels stay unchanged, and the true weights are unknown.

    Trusted: none by default, because users with shifted data name the trusted samples themselves (``read_indices``,
    ``check_trusted``, then ``dataclasses.replace``); a number draws that many uniformly. ``true_y`` repeats the
    given labels, because the true ones are unknown. Shapes: see ``Shifted``.

    >>> NoShift().apply(None, torch.tensor([1, 0]), 2, None, torch.Generator()).trusted
    tensor([], dtype=torch.int64)
    """

    def apply(
        self, x: Tensor | None, y: Tensor, num_classes: int, trusted: int | None, generator: torch.Generator
    ) -> Shifted:
        """Keep all samples and labels; ``x`` is not used."""
        check_labels(y, num_classes)
        return Shifted(
            keep=torch.arange(len(y), device=y.device),
            y=y.clone(),
            true_y=y.clone(),
            trusted=draw_trusted(y, trusted_count(trusted, len(y), default=0), generator),
            true_weights=None,
        )
