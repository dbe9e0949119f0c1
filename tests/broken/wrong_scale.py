"""Kernel mean matching with half the gradient: the factor two of 2(Kw - k) is missing."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from adiw.divergences import MMD, MMDProblem
from adiw.matching.batches import MatchedBatches


class WrongScaleProblem(MMDProblem):
    def gradient(self, params: Tensor) -> Tensor:
        return self.K @ params - self.k


@dataclass(frozen=True)
class WrongScale(MMD):
    def problem(self, batches: MatchedBatches) -> WrongScaleProblem:
        return WrongScaleProblem(**vars(super().problem(batches)))
