"""Kernel mean matching that divides by the number of rows, left-out samples included, instead of those in use."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from adiw.divergences import MMD, MMDProblem
from adiw.groups import spread
from adiw.kernels import gaussian
from adiw.pair import Pair


@dataclass(frozen=True)
class CountsEverybody(MMD):
    def problem(self, pair: Pair) -> MMDProblem:
        assert self.width != "auto"
        cross = torch.where(pair.same("train", "val"), gaussian(pair.z_train, pair.z_val, self.width), 0)
        k = cross.sum(1) * spread(pair.num_train, pair.group_train) / len(pair.z_val)
        return replace(super().problem(pair), k=k)
