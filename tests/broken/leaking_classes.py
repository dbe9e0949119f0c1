"""KLIEP whose kernels reach other classes: ``batches.same`` is missing where the weights are evaluated."""

from __future__ import annotations

from dataclasses import dataclass, replace

from adiw.divergences import KL, KLProblem
from adiw.matching.batches import MatchedBatches
from adiw.matching.kernels import gaussian


@dataclass(frozen=True)
class LeakingClasses(KL):
    def problem(self, batches: MatchedBatches) -> KLProblem:
        assert self.width != "auto"
        right = super().problem(batches)
        return replace(right, psi_train=gaussian(batches.z_train, batches.z_val, self.width))
