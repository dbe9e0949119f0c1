"""KLIEP whose bumps reach into other classes: ``pair.same`` forgotten where the weights are evaluated."""

from __future__ import annotations

from dataclasses import dataclass, replace

from adiw.divergences import KL, KLProblem
from adiw.kernels import gaussian
from adiw.pair import Pair


@dataclass(frozen=True)
class LeakingClasses(KL):
    def problem(self, pair: Pair) -> KLProblem:
        assert self.width != "auto"
        right = super().problem(pair)
        return replace(right, psi_train=gaussian(pair.z_train, pair.z_val, self.width))
