"""Wasserstein whose projection clamps and rescales: feasible, but not the nearest feasible point."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from adiw.divergences import Wasserstein
from adiw.divergences.sliced import SlicedProblem
from adiw.matching.batches import MatchedBatches
from adiw.matching.projections import clamp_rescale


class RescaledProblem(SlicedProblem):
    def project(self, params: Tensor) -> Tensor:
        return clamp_rescale(params, self.share_train, self.group, len(self.num_train))


@dataclass(frozen=True)
class RescaledProjection(Wasserstein):
    def problem(self, batches: MatchedBatches) -> RescaledProblem:
        unit = torch.ones((), dtype=batches.z_train.dtype)
        return RescaledProblem(**vars(SlicedProblem.build(batches, unit, 1)))
