"""Kernel mean matching whose projection allows twice the slack that its settings promise."""

from __future__ import annotations

from dataclasses import dataclass, replace

from adiw.divergences import MMD, MMDProblem
from adiw.pair import Pair


@dataclass(frozen=True)
class LooseProjection(MMD):
    def problem(self, pair: Pair) -> MMDProblem:
        right = super().problem(pair)
        return replace(right, slack=2 * right.slack)
