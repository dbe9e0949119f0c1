"""Jensen-Shannon divergence: the density ratio of a logistic classifier between the two batches."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from adiw.divergences.density_ratio import DensityRatioProblem
from adiw.divergences.settings import RatioSettings
from adiw.matching.batches import MatchedBatches
from adiw.matching.groups import per_sample


@dataclass(frozen=True)
class JensenShannon(RatioSettings):
    """Jensen-Shannon divergence (logistic loss).

    min_beta mean_i log(1 + r_i) + mean_j log(1 + 1 / r_j)  subject to  beta >= 0,  mean_i r_i = 1,
    over training samples i and validation samples j. It is the logistic loss of a classifier with the odds
    r = beta'psi, which are the weights. It is not convex in beta.

    Args:
        width, step_size, update: as for ``KL``.

    >>> import adiw, torch
    >>> z_train, z_val = torch.tensor([0.1, 0.2, 5.0]), torch.tensor([0.1, 0.2])
    >>> weights, _ = adiw.estimate_weights(z_train, z_val, JensenShannon())
    >>> [round(w, 2) for w in weights.tolist()]
    [1.5, 1.5, 0.0]
    """

    def problem(self, batches: MatchedBatches) -> JensenShannonProblem:
        share_train = 1 / per_sample(batches.num_train, batches.membership_train)
        return JensenShannonProblem.build(batches, self.width, self.update, share_train=share_train)


@dataclass(frozen=True)
class JensenShannonProblem(DensityRatioProblem):
    """The fit mean_i log(1 + s_i) + mean_j log(1 + 1 / s_j). s_i is zero for excluded training samples."""

    share_train: Tensor  # (n,) or (1,): one over the size of the sample's group

    def fit(self, s_train: Tensor, s_val: Tensor) -> Tensor:
        return (self.share_train * s_train.log1p()).sum() + (self.share * s_val.reciprocal().log1p()).sum()

    def slopes(self, s_train: Tensor, s_val: Tensor) -> tuple[Tensor, Tensor]:
        return self.share_train / (1 + s_train), -self.share / (s_val * (1 + s_val))
