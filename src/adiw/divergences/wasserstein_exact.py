"""The exact Wasserstein-1 distance of scalars, or of several directions, by sorting."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from adiw.matching.batches import MatchedBatches
from adiw.matching.groups import masked, per_sample
from adiw.matching.projections import box_mean_band


@dataclass(frozen=True)
class SortedProblem:
    """J(w) = n W1 for each of k directions, in the mean; W1 is the area between two distribution functions.

    Over the sorted samples x_i of both batches, W1 = sum_i (x_{i+1} - x_i) |F_w(x_i) - F_val(x_i)|, and on each gap
    the optimal critic has the slope sign(F_val - F_w). Each direction is sorted group by group, so all directions
    have the same groups at the same positions.
    """

    order: Tensor  # (n + m, k) positions that sort each direction
    gap: Tensor  # (n + m, k) in that order: distance to the next sample of the group, zero for the last
    sorted_group: Tensor | None  # (n + m,) in that order: the group, 0 for excluded samples; None for a single group
    share_train: Tensor  # (n,) one over the size of the sample's group, zero for excluded samples
    share_val: Tensor  # (m,) likewise
    num_train: Tensor  # (num_groups,)
    group: Tensor | None  # (n,), None for a single group without excluded samples

    @classmethod
    def build(cls, batches: MatchedBatches, z: Tensor) -> SortedProblem:
        """Sort z (n + m, k), both batches along each direction."""
        group = torch.cat([batches.group_train, batches.group_val]) if batches.num_groups > 1 else None
        z = _without_excluded(batches, z, group)
        order, sorted_group = z.argsort(0), None
        if group is not None:
            group = group.clamp_min(0)
            order, sorted_group = order.gather(0, group[order].argsort(dim=0, stable=True)), group.sort().values
        far = torch.finfo(z.dtype).max / (8 * len(z))  # so that the sum of all gaps is finite
        z = z.gather(0, order).clamp(-far, far)
        gap = z.diff(dim=0, append=z[-1:])
        if sorted_group is not None:
            gap = torch.where((sorted_group == torch.cat([sorted_group[1:], sorted_group[-1:]]))[:, None], gap, 0)
        share = batches.included_train / per_sample(batches.num_train, batches.membership_train)
        return cls(order, gap, sorted_group, share, batches.share_val, batches.num_train, batches.membership_train)

    def initial(self) -> Tensor:
        return torch.ones_like(self.share_train)

    def objective(self, params: Tensor) -> Tensor:
        area = (self.gap * self._difference(params).abs()).mean(1)
        return (per_sample(self.num_train, self.sorted_group) * area).sum()

    def gradient(self, params: Tensor) -> Tensor:
        difference = self._difference(params)
        rounding = 2 * len(difference) * torch.finfo(difference.dtype).eps  # would decide the sign beyond all weights
        rise = torch.where(difference.abs() > rounding, self.gap * difference.sign(), 0)
        running = rise.cumsum(0)
        above = rise - running + self._at_end(running)  # sum from each sample to the end of its group
        unsorted = torch.empty_like(above).scatter_(0, self.order, above)
        return masked(self.group, unsorted[: len(params)].mean(1))

    def project(self, params: Tensor) -> Tensor:
        return box_mean_band(params, group=self.group, num_groups=len(self.num_train))

    def weights(self, params: Tensor) -> Tensor:
        return params

    def _difference(self, params: Tensor) -> Tensor:
        """F_w - F_val just after each sorted sample, (n + m, k)."""
        running = torch.cat([self.share_train * params, -self.share_val])[self.order].cumsum(0)
        if self.sorted_group is None:
            return running
        before = torch.searchsorted(self.sorted_group, self.sorted_group)  # how many samples the earlier groups have
        return running - torch.cat([torch.zeros_like(running[:1]), running])[before]

    def _at_end(self, running: Tensor) -> Tensor:
        """The running sum (n + m, k) at the end of each sample's group."""
        if self.sorted_group is None:
            return running[-1:]
        return running[torch.searchsorted(self.sorted_group, self.sorted_group, right=True) - 1]


def _without_excluded(batches: MatchedBatches, z: Tensor, group: Tensor | None) -> Tensor:
    """z (n + m, k) with the smallest z of group 0 for excluded samples, so that they add no gap."""
    used = torch.cat([batches.included_train, batches.included_val])[:, None]
    first = torch.where(used if group is None else group[:, None] == 0, z, torch.inf).amin(0)
    return torch.where(used, z, first.clamp_max(torch.finfo(z.dtype).max))
