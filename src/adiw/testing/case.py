"""A divergence with settings for the shared suite, and what is true of its projection and steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from adiw.divergences import Divergence, capabilities

Array = NDArray[np.float64]
# How far params lie outside the feasible set of one group: (params, z_train, z_val) -> a number, zero inside.
Violation = Callable[[Array, Array, Array], float]
WIDTH = 0.7  # about the spread of the test data, so that neighbouring kernels overlap without being equal
# "auto" follows all data of a batch, so with it a class does not have the same numbers alone and beside others.
SUITABLE = {"width": WIDTH, "scale": 1.0}


@dataclass(frozen=True)
class Case:
    """A divergence to test.

    Attributes:
        divergence: an instance, whose ``width`` and ``scale`` suit z between -2 and 2.
        violation: states the constraints in numpy; without it, a point is feasible when ``project`` does not move it.
        nearest: False for a ``project`` that is not the Euclidean projection.
        descends: False for an update whose small steps need not lower the objective.
    """

    divergence: Divergence
    violation: Violation | None = None
    nearest: bool = True
    descends: bool = True

    @property
    def dims(self) -> tuple[int, ...]:
        """The sizes of z to test: only scalars if the divergence is for losses only."""
        if (
            "features" not in capabilities(type(self.divergence)).z
            or getattr(self.divergence, "critic", "") == "exact"
        ):
            return (1,)
        return (1, 2)


def default(kind: type[Divergence]) -> Divergence:
    """The default settings, with a kernel width and a unit of z that suit the test data.

    >>> from adiw.divergences import MMD, Energy
    >>> default(MMD).width, default(Energy)
    (0.7, Energy(step_size=0.05, scale=1.0))
    """
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in SUITABLE.items() if name in names})
