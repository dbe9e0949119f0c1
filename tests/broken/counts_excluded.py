"""Kernel mean matching that divides by the number of all rows, although some are excluded."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from adiw.divergences import MMD, MMDProblem
from adiw.matching.batches import MatchedBatches
from adiw.matching.groups import per_sample
from adiw.matching.kernels import gaussian


@dataclass(frozen=True)
class CountsExcluded(MMD):
    def problem(self, batches: MatchedBatches) -> MMDProblem:
        assert self.width != "auto"
        cross = torch.where(batches.same("train", "val"), gaussian(batches.z_train, batches.z_val, self.width), 0)
        k = cross.sum(1) * per_sample(batches.num_train, batches.group_train) / len(batches.z_val)
        return replace(super().problem(batches), k=k)
