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
from adiw.divergences.wasserstein_exact import SortedProblem
from adiw.matching.batches import MatchedBatches
from adiw.matching.kernels import Width, resolve_width


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

    def problem(self, batches: MatchedBatches) -> SortedProblem:
        unit = resolve_width(self.scale, batches, fraction=1.0)
        return SortedProblem.build(batches, _projected(batches, unit, self.directions))


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


def _projected(batches: MatchedBatches, unit: float | Tensor, count: int) -> Tensor:
    """Both batches along each direction, (n + m, k)."""
    z = torch.cat([batches.z_train, batches.z_val])
    far = torch.finfo(z.dtype).max / (64 * len(z) * z.shape[1])  # so that the sum of all gaps is finite
    return (z / unit).clamp(-far, far) @ gaussian_directions(z.shape[1], count, z)
