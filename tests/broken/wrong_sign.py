"""LSIF whose gradient has the wrong sign."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from adiw.divergences import Squared, SquaredProblem
from adiw.matching.batches import MatchedBatches


class WrongSignProblem(SquaredProblem):
    def gradient(self, params: Tensor) -> Tensor:
        return -super().gradient(params)


@dataclass(frozen=True)
class WrongSign(Squared):
    def problem(self, batches: MatchedBatches) -> WrongSignProblem:
        return WrongSignProblem(**vars(super().problem(batches)))
