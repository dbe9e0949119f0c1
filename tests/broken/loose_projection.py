"""Kernel mean matching whose projection allows twice the slack that its settings promise."""

from __future__ import annotations

from dataclasses import dataclass, replace

from adiw.divergences import MMD, MMDProblem
from adiw.matching.batches import MatchedBatches


@dataclass(frozen=True)
class LooseProjection(MMD):
    def problem(self, batches: MatchedBatches) -> MMDProblem:
        right = super().problem(batches)
        return replace(right, slack=2 * right.slack)
