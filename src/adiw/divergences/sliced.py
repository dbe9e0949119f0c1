"""Sliced Wasserstein distance: the exact distance of scalars, averaged over directions in the space of features."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from adiw.argument_checks import is_count
from adiw.divergences.protocol import Side
from adiw.divergences.settings import check_setting, check_step_size, check_width
from adiw.matching.batches import MatchedBatches
from adiw.matching.groups import masked, per_sample
from adiw.matching.kernels import Width, resolve_width
from adiw.matching.projections import box_mean_band


@dataclass(frozen=True)
class Sliced:
    """Sliced Wasserstein-1 distance.

    min_w n mean_k W1(t_k'v, t_k'x)  subject to  w >= 0,  mean(w) = 1,
    for fixed directions t_k with Gaussian entries, of a size at which a shift of all samples has the distance of its
    length. Each W1 is computed by sorting. For scalars it is the distance of ``Wasserstein("exact")``.

    Args:
        step_size: eta. A step moves a weight by at most step_size for each unit of distance.
        scale: the unit of z, or "auto" (the typical distance). z is divided by it.
        directions: number of directions; one for scalars.

    >>> import adiw
    >>> z_train, z_val = torch.tensor([[0.1, 0.0], [0.2, 0.1], [5.0, 4.0]]), torch.tensor([[0.1, 0.0], [0.2, 0.1]])
    >>> weights, _ = adiw.estimate_weights(z_train, z_val, Sliced(), steps=40)
    >>> bool(weights[2] < 0.05)
    True
    """

    step_size: float = 0.03
    scale: Width = "auto"
    directions: int = 64
    side: ClassVar[Side] = "train"
    cost: ClassVar[str] = "k (n + m) log(n + m) for k directions"

    def __post_init__(self) -> None:
        check_step_size(self)
        check_width(self, "scale")
        check_setting(self, "directions", is_count(self.directions, least=1), "a count from 1")

    def problem(self, batches: MatchedBatches) -> SlicedProblem:
        unit = resolve_width(self.scale, batches, fraction=1.0)
        return SlicedProblem.build(batches, unit, self.directions)


def gaussian_directions(dim: int, count: int, like: Tensor) -> Tensor:
    """Fixed directions (dim, count) with E|t'x| = |x|; a single one, of one, for scalars.

    Their entries are normal numbers from a hash of their position, made on the device without a generator: a compiled
    or captured step can compute them, and a resumed run has the same ones.
    """
    if dim == 1:
        return torch.ones(1, 1, dtype=like.dtype, device=like.device)
    number = torch.arange(1, dim * count + 1, dtype=torch.float64, device=like.device)
    first, second = ((factor * number).sin().mul(43758.5453).remainder(1) for factor in (12.9898, 78.233))
    normal = (-2 * (1 - first).log()).sqrt() * (2 * math.pi * second).cos()  # Box and Muller
    directions: Tensor = (normal * (math.pi / 2) ** 0.5).view(dim, count).to(like.dtype)
    return directions


@dataclass(frozen=True)
class SlicedProblem:
    """J(w) = n W1, averaged over k directions; each W1 is the area between the two distribution functions.

    Over the sorted samples x_l of both batches, W1 = sum_l (x_{l+1} - x_l) |F_w(x_l) - F_val(x_l)|, and on each gap
    the optimal critic has the slope sign(F_val - F_w). The samples of each direction are sorted group by group, so
    all directions have the same groups at the same positions.
    """

    order: Tensor  # (n + m, k) positions that sort each direction
    gap: Tensor  # (n + m, k) in that order: distance to the next sample of the group, zero for the last
    sorted_group: Tensor | None  # (n + m,) in that order: the group, 0 for excluded samples; None for a single group
    bounds: Tensor | None  # (num_groups + 1,) the first position of each group, and the number of positions
    share_train: Tensor  # (n,) one over the size of the sample's group, zero for excluded samples
    share_val: Tensor  # (m,) likewise
    num_train: Tensor  # (num_groups,)
    group: Tensor | None  # (n,), None for a single group without excluded samples

    @classmethod
    def build(cls, batches: MatchedBatches, unit: float | Tensor, directions: int) -> SlicedProblem:
        """Sort z / unit of both batches along each direction."""
        z = torch.cat([batches.z_train, batches.z_val])
        far = torch.finfo(z.dtype).max / (64 * len(z) * z.shape[1])  # so that the sum of all gaps is finite
        z = (z / unit).clamp(-far, far) @ gaussian_directions(z.shape[1], directions, z)
        group = torch.cat([batches.group_train, batches.group_val]) if batches.num_groups > 1 else None
        if batches.membership_train is not None:  # below the others of group 0, an excluded sample moves no mass
            used = torch.cat([batches.included_train, batches.included_val])[:, None]
            z = torch.where(used, z, z.amin(0))
        order, sorted_group, bounds = z.argsort(0), None, None
        if group is not None:
            group = group.clamp_min(0)
            order = order.gather(0, group[order].argsort(dim=0, stable=True))
            sorted_group = group[order[:, 0]]
            bounds = (group < torch.arange(batches.num_groups + 1, device=z.device)[:, None]).sum(1)
        z = z.gather(0, order)
        gap = z.diff(dim=0, append=z[-1:])
        if sorted_group is not None:
            gap = torch.where(sorted_group.diff(append=sorted_group[-1:])[:, None] == 0, gap, 0)
        share = batches.included_train / per_sample(batches.num_train, batches.membership_train)
        groups = batches.num_train, batches.membership_train
        return cls(order, gap, sorted_group, bounds, share, batches.share_val, *groups)

    def initial(self) -> Tensor:
        return torch.ones_like(self.share_train)

    def objective(self, params: Tensor) -> Tensor:
        area = (self.gap * self._difference(params).abs()).mean(1)
        return (per_sample(self.num_train, self.sorted_group) * area).sum()

    def gradient(self, params: Tensor) -> Tensor:
        difference = self._difference(params)
        rounding = 2 * len(difference) * torch.finfo(difference.dtype).eps  # would decide the sign beyond all weights
        rise = torch.where(difference.abs() > rounding, self.gap * difference.sign(), 0)
        above = rise.flip(0).cumsum(0).flip(0)
        if self.bounds is not None:  # without what lies above the sample's group
            padded = torch.cat([above, torch.zeros_like(above[:1])])
            above = above - padded[self.bounds[1:][self.sorted_group]]
        unsorted = torch.empty_like(above).scatter_(0, self.order, above)
        return masked(self.group, unsorted[: len(params)].mean(1))

    def project(self, params: Tensor) -> Tensor:
        return box_mean_band(params, group=self.group, num_groups=len(self.num_train))

    def weights(self, params: Tensor) -> Tensor:
        return params

    def _difference(self, params: Tensor) -> Tensor:
        """F_w - F_val just after each sorted sample, (n + m, k)."""
        running = torch.cat([self.share_train * params, -self.share_val])[self.order].cumsum(0)
        if self.bounds is None:
            return running
        padded = torch.cat([torch.zeros_like(running[:1]), running])
        return running - padded[self.bounds[self.sorted_group]]
