"""Energy distance: one weight per training sample, without a kernel width."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from adiw.divergences.protocol import Side
from adiw.divergences.settings import check_step_size, check_width
from adiw.matching.batches import MatchedBatches
from adiw.matching.groups import per_sample
from adiw.matching.kernels import Width, resolve_width
from adiw.matching.projections import box_mean_band


@dataclass(frozen=True)
class Energy:
    """Energy distance (for scalars twice the Cramer distance).

    min_w n (2 E|x - v| - E|x - x'|)  subject to  w >= 0,  mean(w) = 1,
    for x, x' of the weighted training batch and v of the validation batch, with Euclidean distances. Both terms are
    convex on the feasible set. It is a maximum mean discrepancy whose kernel, -|a - b|, has no width.

    Args:
        step_size: eta. A step moves a weight by step_size for each unit of distance.
        scale: the unit of z, or "auto" (the typical distance), for losses that are not a cross-entropy. z is divided
            by it.

    >>> import adiw
    >>> z_train, z_val = torch.tensor([0.1, 0.2, 5.0]), torch.tensor([0.1, 0.2])
    >>> weights, _ = adiw.estimate_weights(z_train, z_val, Energy(), steps=40)
    >>> bool(weights[2] < 0.05)
    True
    """

    step_size: float = 0.05
    scale: Width = "auto"
    side: ClassVar[Side] = "train"
    cost: ClassVar[str] = "n (n + m)"

    def __post_init__(self) -> None:
        check_step_size(self)
        check_width(self, "scale")

    def problem(self, batches: MatchedBatches) -> EnergyProblem:
        unit = resolve_width(self.scale, batches, fraction=1.0)
        n, z = len(batches.z_train), torch.cat([batches.z_train, batches.z_val])
        pairwise = distances(batches.z_train / unit, z / unit)
        if batches.membership_train is not None:
            pairwise = torch.where(
                torch.cat([batches.same("train", "train"), batches.same("train", "val")], 1), pairwise, 0
            )
        to_val = pairwise[:, n:].sum(1) / per_sample(batches.num_val, batches.membership_train)
        to_train = pairwise[:, :n] / per_sample(batches.num_train, batches.membership_train).unsqueeze(1)
        return EnergyProblem(to_val, to_train, batches.membership_train, batches.num_groups)


def distances(a: Tensor, b: Tensor) -> Tensor:
    """|a_i - b_j| between the rows of a (n, d) and b (m, d): (n, m), bounded so that their sums are finite.

    >>> distances(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]]))
    tensor([[5.]])
    """
    far = 1e-9 * torch.finfo(a.dtype).max / (8 * len(b)) ** 2  # stored weights may be large, too
    if a.shape[1] == 1:
        return (a - b.T).abs().clamp_max(far)
    # Not by a matrix product: the root of its rounding error is larger than the distance of close samples.
    return torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist").clamp_max(far)


@dataclass(frozen=True)
class EnergyProblem:
    """The quadratic program of the energy distance for two batches."""

    to_val: Tensor  # (n,) mean distance to the validation samples
    to_train: Tensor  # (n, n) distances between training samples, divided by n
    group: Tensor | None  # (n,), None for a single group without excluded samples
    num_groups: int

    def initial(self) -> Tensor:
        return torch.ones_like(self.to_val)

    def objective(self, params: Tensor) -> Tensor:
        return params @ (2 * self.to_val - self.to_train @ params)

    def gradient(self, params: Tensor) -> Tensor:
        return torch.addmv(self.to_val, self.to_train, params, beta=2, alpha=-2)

    def project(self, params: Tensor) -> Tensor:
        return box_mean_band(params, group=self.group, num_groups=self.num_groups)

    def weights(self, params: Tensor) -> Tensor:
        return params
