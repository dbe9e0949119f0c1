"""Kernels between samples, and a width in proportion to the scale of the data.

A width is always sigma in exp(-||a - b||^2 / (2 sigma^2)); scikit-learn's gamma is 1 / (2 sigma^2).
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from adiw.matching.batches import MatchedBatches
from adiw.matching.groups import per_sample

Width = float | Literal["auto"]
FACTOR = -0.5 * math.log2(math.e)  # exp(-x / 2) = 2 ** (FACTOR x)
LEAST = {kind: 8 * torch.finfo(kind).tiny for kind in (torch.float64, torch.float32, torch.bfloat16)}
LEAST[torch.float16] = LEAST[torch.float32]


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """||a_i - b_j||^2 between the rows of a (n, d) and b (m, d): (n, m).

    Scalars are subtracted, which is exact. Vectors use one matrix product, (-2a, |a|^2, 1) (b, 1, |b|^2)', and are
    centred first, because a large common offset would cost precision. The centre is the median of b: a single outlier
    would move the mean.

    >>> squared_distances(torch.tensor([[0.0], [3.0]]), torch.tensor([[1.0]]))
    tensor([[1.],
            [4.]])
    """
    if a.shape[1] == 1:
        return (a - b.T).square()
    centre = b.sort(0).values[len(b) // 2]
    a, b = a - centre, b - centre
    left = torch.cat([-2 * a, a.square().sum(1, keepdim=True), torch.ones_like(a[:, :1])], dim=1)
    right = torch.cat([b, torch.ones_like(b[:, :1]), b.square().sum(1, keepdim=True)], dim=1)
    return (left @ right.T).nan_to_num_(nan=torch.inf, posinf=torch.inf).clamp_min_(0)  # nan: both squares overflow


def gaussian(a: Tensor, b: Tensor, width: float | Tensor) -> Tensor:
    """exp(-||a_i - b_j||^2 / (2 width^2)): (n, m).

    >>> gaussian(torch.tensor([[0.0]]), torch.tensor([[0.0], [2.0]]), width=2.0)
    tensor([[1.0000, 0.6065]])
    """
    # In place and in few passes: these are the largest tensors of a step.
    if a.shape[1] > 1:
        exponent = squared_distances(a / width, b / width).mul_(FACTOR)
    elif isinstance(width, float) and 1e-9 < width < 1e9 and a.dtype != torch.float16:
        # Squares overflow or underflow only at distances far above or below such a width: the kernel is 0 or 1.
        exponent = (a - b.T).square_().mul_(FACTOR / width**2)
    else:
        exponent = (a - b.T).div_(width).square_().mul_(FACTOR)
    kernel = exponent.exp2_()  # on a CPU exp takes three times as long, and forty times where it underflows
    # A narrow kernel underflows almost everywhere, and on a CPU denormal numbers slow down all that uses them.
    return kernel if kernel.is_cuda else torch.threshold(kernel, LEAST[kernel.dtype], 0)


def laplace(a: Tensor, b: Tensor, width: float | Tensor) -> Tensor:
    """exp(-||a_i - b_j|| / width): (n, m).

    >>> laplace(torch.tensor([[0.0]]), torch.tensor([[0.0], [2.0]]), width=2.0)
    tensor([[1.0000, 0.3679]])
    """
    return (-_scaled_squares(a, b, width).sqrt()).exp()


def rational_quadratic(a: Tensor, b: Tensor, width: float | Tensor) -> Tensor:
    """1 / (1 + ||a_i - b_j||^2 / (2 width^2)): (n, m). It falls slowly, so distant samples still attract.

    >>> rational_quadratic(torch.tensor([[0.0]]), torch.tensor([[0.0], [2.0]]), width=2.0)
    tensor([[1.0000, 0.6667]])
    """
    return 1 / (1 + _scaled_squares(a, b, width) / 2)


def _scaled_squares(a: Tensor, b: Tensor, width: float | Tensor) -> Tensor:
    """||a_i - b_j||^2 / width^2: (n, m). Scalars are subtracted before the division, which may overflow."""
    return ((a - b.T) / width).square() if a.shape[1] == 1 else squared_distances(a / width, b / width)


def linear(a: Tensor, b: Tensor, width: float | Tensor) -> Tensor:
    """a_i'b_j / width^2: (n, m). It compares means only. Entries are bounded so that sums of products are finite.

    >>> linear(torch.tensor([[1.0]]), torch.tensor([[3.0], [4.0]]), width=2.0)
    tensor([[0.7500, 1.0000]])
    """
    far = 1e-6 * torch.finfo(a.dtype).max ** 0.5
    return (a / width).clamp(-far, far) @ (b / width).clamp(-far, far).T


KERNELS = {"gaussian": gaussian, "laplace": laplace, "rational-quadratic": rational_quadratic, "linear": linear}


def kernel_to(
    side: Literal["train", "val"], batches: MatchedBatches, width: float | Tensor, kernel: str = "gaussian"
) -> Tensor:
    """Kernel between all samples (training, then validation) and those of one side: (n + m, n) or (n + m, m).

    It is zero between groups, and between included and excluded samples.
    """
    z = torch.cat([batches.z_train, batches.z_val])
    matrix = KERNELS[kernel](z, batches.z_train if side == "train" else batches.z_val, width)
    distant = batches.membership_train is not None and batches.membership_train.dtype == torch.bool
    if batches.membership_train is None or (distant and isinstance(width, float) and kernel == "gaussian"):
        return matrix  # no sample is excluded, or the z of excluded samples makes the kernel zero
    mask = torch.cat([batches.same("train", side), batches.same("val", side)])
    return torch.where(mask, matrix, 0)


class CentredKernels(NamedTuple):
    """Gaussian kernels centred on the m validation samples."""

    train: Tensor  # (n, m) psi of the training samples
    val: Tensor  # (m, m) psi of the validation samples
    mean: Tensor  # (m,) the mean of ``train`` over the training samples of each centre's group


def centred_kernels(batches: MatchedBatches, width: Width) -> CentredKernels:
    """psi_l(z) of all samples, for a width or "auto": a third of the typical distance (0.5 on cross-entropy)."""
    if batches.kept is not None and isinstance(width, float):  # all samples are included
        train, val = gaussian(batches.z_train, batches.z_val, width), batches.kept.kernels.get(width)
        if val is None:
            val = batches.kept.kernels[width] = gaussian(batches.z_val, batches.z_val, width)
    else:
        matrix = kernel_to("val", batches, resolve_width(width, batches, fraction=1 / 3))
        train, val = matrix.split([len(batches.z_train), len(batches.z_val)])
    group = batches.membership_val
    number = len(train) if group is None else per_sample(batches.num_train, group)
    return CentredKernels(train, val, train.sum(0) / number)


def resolve_width(width: Width, batches: MatchedBatches, fraction: float) -> float | Tensor:
    """The width itself, or for "auto" ``fraction`` of the typical distance between these batches."""
    return fraction * typical_distance(batches) if width == "auto" else width


def typical_distance(batches: MatchedBatches) -> Tensor:
    """The typical distance of a training sample from the validation samples of its group: a positive scalar.

    For scalars in one group it is the distance to the median validation sample, otherwise the root mean square
    distance to all of them. The mean is over the nearest 95% of the training samples, so that a few outliers do not
    set the scale.
    """
    if batches.z_train.shape[1] == 1 and batches.num_groups == 1:
        used = torch.where(batches.included_val, batches.z_val[:, 0], float("nan"))
        distance = (batches.z_train[:, 0] - used.nanmedian()).abs()
    else:
        same = batches.same("train", "val")
        squared = torch.where(same, squared_distances(batches.z_train, batches.z_val), 0)
        distance = (squared.sum(1) / same.sum(1).clamp_min(1)).sqrt()
    used = batches.included_train
    nearest = torch.where(used, distance, float("inf")).sort().values
    kept = torch.arange(len(nearest), device=nearest.device) < (0.95 * used.sum()).ceil()
    mean = torch.where(kept, nearest, 0).sum() / kept.sum().clamp_min(1)
    mean = torch.where(mean.isfinite(), mean, 1)
    return mean.clamp_min(torch.finfo(mean.dtype).eps ** 2)  # all equal: any positive width works
