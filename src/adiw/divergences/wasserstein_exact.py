"""The exact Wasserstein-1 distance of scalars, by sorting."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from adiw.matching.batches import MatchedBatches
from adiw.matching.groups import group_order, group_sum, masked, per_sample
from adiw.matching.projections import box_mean_band


@dataclass(frozen=True)
class SortedProblem:
    """J(w) = n W1 for scalar z, where W1 is the area between the two distribution functions.

    Over the sorted samples x_k of both batches, W1 = sum_k (x_{k+1} - x_k) |F_w(x_k) - F_val(x_k)|, and on each gap
    the optimal critic has the slope sign(F_val - F_w).
    """

    order: Tensor  # (n + m,) positions that sort both batches, group by group
    gap: Tensor  # (n + m,) in that order: distance to the next sample of the group, zero for the last
    sorted_group: Tensor | None  # (n + m,) in that order: the group, 0 for excluded samples; None for a single group
    share_train: Tensor  # (n,) one over the size of the sample's group, zero for excluded samples
    share_val: Tensor  # (m,) likewise
    num_train: Tensor  # (num_groups,)
    group: Tensor | None  # (n,), None for a single group without excluded samples

    @classmethod
    def build(cls, batches: MatchedBatches, unit: float | Tensor) -> SortedProblem:
        """Sort z / unit of both batches."""
        group = torch.cat([batches.group_train, batches.group_val]) if batches.num_groups > 1 else None
        z = _without_excluded(batches, group)
        z = z if isinstance(unit, float) and unit == 1 else z / unit
        sorted_group = None if group is None else group.clamp_min(0)
        order = z.argsort() if sorted_group is None else group_order(z, sorted_group, batches.num_groups)
        far = torch.finfo(z.dtype).max / (8 * len(z))  # so that the sum of all gaps is finite
        z = z[order].clamp(-far, far)
        gap = z.diff(append=z[-1:])
        if sorted_group is not None:
            sorted_group = sorted_group[order]
            gap = torch.where(sorted_group == torch.cat([sorted_group[1:], sorted_group[-1:]]), gap, 0)
        share = batches.included_train / per_sample(batches.num_train, batches.membership_train)
        return cls(order, gap, sorted_group, share, batches.share_val, batches.num_train, batches.membership_train)

    def initial(self) -> Tensor:
        return torch.ones_like(self.share_train)

    def objective(self, params: Tensor) -> Tensor:
        return (per_sample(self.num_train, self.sorted_group) * self.gap * self._difference(params).abs()).sum()

    def gradient(self, params: Tensor) -> Tensor:
        rise = self.gap * self._difference(params).sign()
        above = rise - rise.cumsum(0) + self._until_end(rise)  # sum from each sample to the end of its group
        unsorted = torch.empty_like(above).scatter_(0, self.order, above)
        return masked(self.group, unsorted[: len(params)])

    def project(self, params: Tensor) -> Tensor:
        return box_mean_band(params, group=self.group, num_groups=len(self.num_train))

    def weights(self, params: Tensor) -> Tensor:
        return params

    def _difference(self, params: Tensor) -> Tensor:
        """F_w - F_val just after each sorted sample, (n + m,)."""
        change = torch.cat([self.share_train * params, -self.share_val])[self.order]
        running = change.cumsum(0)
        if self.sorted_group is None:
            return running
        own = per_sample(group_sum(change, self.sorted_group, len(self.num_train)), self.sorted_group)
        return running - (self._until_end(change) - own)

    def _until_end(self, values: Tensor) -> Tensor:
        """The running sum of values (n + m,) at the end of each sample's group, (n + m,)."""
        return per_sample(group_sum(values, self.sorted_group, len(self.num_train)).cumsum(0), self.sorted_group)


def _without_excluded(batches: MatchedBatches, group: Tensor | None) -> Tensor:
    """z of both batches, (n + m,), with the smallest z of group 0 for excluded samples, so that they add no gap."""
    z = torch.cat([batches.z_train[:, 0], batches.z_val[:, 0]])
    used = torch.cat([batches.included_train, batches.included_val])
    first = torch.where(used if group is None else group == 0, z, torch.inf).min()
    return torch.where(used, z, first.clamp_max(torch.finfo(z.dtype).max))
