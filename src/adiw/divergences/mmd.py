"""Maximum mean discrepancy: one weight per training sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from adiw.argument_checks import is_number, is_real
from adiw.divergences.protocol import Side
from adiw.divergences.settings import check_choice, check_setting, check_step_size, check_width
from adiw.matching.batches import MatchedBatches
from adiw.matching.groups import per_sample
from adiw.matching.kernels import KERNELS, Width, kernel_to, resolve_width
from adiw.matching.projections import box_mean_band


@dataclass(frozen=True)
class MMD:
    """Maximum mean discrepancy (kernel mean matching, KMM).

    min_w w'Kw - 2k'w  subject to  0 <= w <= upper,  |mean(w) - 1| <= slack   (Eq. ADIW_kmm_emp),
    with K_ij = k(z_i, z_j) over the training batch and k_i = n / m sum_j k(z_i, z_j^val).

    Args:
        width: sigma of the Gaussian kernel, or "auto" (0.007 of the typical distance: about 0.01 on
            cross-entropy losses).
        step_size: eta; the gradient 2(Kw - k) is not divided by n.
        upper: largest weight.
        slack: largest distance of the mean weight from one; None for DIW's (sqrt(n) - 1) / sqrt(n).
        step: "local" divides each weight's step by sum_j K_ij, the number of samples nearby. "plain", the paper's
            step, moves each weight by eta times its gradient, as "local" does for a sample without neighbours; it
            overshoots where many losses are nearly equal.
        kernel: "gaussian"; "laplace", exp(-d / width), which also resolves small differences;
            "rational-quadratic", 1 / (1 + d^2 / (2 width^2)), which reaches further; "linear", a'b / width^2, which
            compares means only and needs step="local" and a width of the size of z.

    >>> import adiw
    >>> weights, _ = adiw.estimate_weights(torch.tensor([0.1, 0.2, 5.0]), torch.tensor([0.1, 0.2]), MMD(width=1.0))
    >>> bool(weights[2] < weights[0])
    True
    """

    width: Width = 0.01
    step_size: float = 0.1
    upper: float = 50.0
    slack: float | None = None
    step: Literal["plain", "local"] = "local"
    kernel: Literal["gaussian", "laplace", "rational-quadratic", "linear"] = "gaussian"
    side: ClassVar[Side] = "train"
    cost: ClassVar[str] = "n (n + m)"

    def __post_init__(self) -> None:
        check_width(self)
        check_step_size(self)
        check_setting(self, "upper", is_real(self.upper) and self.upper >= 1, "at least 1, the mean weight")
        check_choice(self, "step", ("plain", "local"))
        check_choice(self, "kernel", tuple(KERNELS))
        check_setting(self, "slack", self.slack is None or is_number(self.slack, least=0), "None or a number from 0")

    def problem(self, batches: MatchedBatches) -> MMDProblem:
        width = resolve_width(self.width, batches, fraction=0.007)
        kernel = kernel_to("train", batches, width, self.kernel)
        n = len(batches.z_train)
        if (
            batches.z_train.shape[1] > 1 and self.kernel != "linear"
        ):  # distances of vectors are rounded, but k(z, z) is one
            kernel[:n].diagonal().fill_(1)
        K = kernel[:n] * batches.included_train[:, None]
        k = kernel[n:].sum(0) * per_sample(batches.num_train / batches.num_val, batches.membership_train)
        root = batches.num_train.sqrt()
        slack = (root - 1) / root if self.slack is None else torch.full_like(root, self.slack)
        sizes = K.abs() if self.kernel == "linear" else K  # other kernels are not negative
        scale = 1 / sizes.sum(1).clamp_min(1) if self.step == "local" else None
        return MMDProblem(K, k, self.upper, slack, batches.membership_train, scale)


@dataclass(frozen=True)
class MMDProblem:
    """The quadratic program of KMM for two batches."""

    K: Tensor  # (n, n), zero between groups
    k: Tensor  # (n,)
    upper: float
    slack: Tensor  # (num_groups,)
    group: Tensor | None  # (n,), None for a single group without excluded samples
    step_scale: Tensor | None = None  # (n,)

    def initial(self) -> Tensor:
        return torch.ones_like(self.k)

    def objective(self, params: Tensor) -> Tensor:
        return params @ (self.K @ params - 2 * self.k)

    def gradient(self, params: Tensor) -> Tensor:
        return torch.addmv(self.k, self.K, params, beta=-2, alpha=2)

    def project(self, params: Tensor) -> Tensor:
        upper = min(self.upper, torch.finfo(params.dtype).max)
        low, high = (1 - self.slack).clamp_min(0), (1 + self.slack).clamp_max(upper)
        return box_mean_band(params, self.upper, low, high, self.group, len(self.slack))

    def weights(self, params: Tensor) -> Tensor:
        return params
