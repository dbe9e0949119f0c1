"""Candidates for the default of adiw, each a row of one table, built from the public names of the library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import adiw
from adiw.divergences import KL, MMD, Squared, Wasserstein
from benchmarks.gauntlet.training import Criterion, criterion_for

VAL_EVERY = 4  # steps between two evaluations of the trusted samples, as in adiw.ADIW
PSEUDO_SAMPLES = 3  # a class's mean trusted loss is shrunk towards the mean of all classes by so many samples
PSEUDO_COUNT = 5  # a class-prior ratio is shrunk towards one by so many samples


@dataclass(frozen=True)
class Candidate:
    """One configuration. The name of a candidate is never given to another configuration: records go by it.

    Args:
        divergence: with its settings.
        join: the trusted samples are part of the training set, once each.
        compare: how losses of several classes are made comparable before they are matched: each is divided by
            ("ratio"), or less ("difference"), the shrunken mean trusted loss of its given class.
        prior: weights are multiplied by p_trusted(y) / p(y) of the given class, where p(y) is the share of given
            labels ("given"), or their share of the present weights, shrunken ("weighted"): where the weights have
            removed wrong labels, it is the share of right ones.
        mean_one: the mean weight of a batch is held at one.
        floor: joined trusted samples weigh at least one, whatever the estimate is.
    """

    divergence: KL | MMD | Squared | Wasserstein
    join: bool = True
    compare: Literal["ratio", "difference"] | None = None
    prior: Literal["given", "weighted"] | None = None
    mean_one: bool = False
    floor: bool = False


LOCAL = MMD(step="local")
LOCAL_AUTO = MMD(step="local", width="auto")
CANDIDATES: dict[str, Candidate] = {
    "kl-join": Candidate(KL()),
    "kl-auto-join": Candidate(KL(width="auto")),
    "wasserstein-auto-join": Candidate(Wasserstein(scale="auto", step_size=0.1)),
    "mmd-local": Candidate(LOCAL, join=False),
    "mmd-local-join": Candidate(LOCAL),
    "mmd-auto-join": Candidate(LOCAL_AUTO),
    "mmd-ratio-prior": Candidate(LOCAL_AUTO, compare="ratio", prior="given"),
    "mmd-difference-prior": Candidate(LOCAL_AUTO, compare="difference", prior="given"),
    "mmd-weighted-prior": Candidate(LOCAL_AUTO, prior="weighted"),
    "mmd-local-floor": Candidate(LOCAL, floor=True),
    "mmd-local-floor-weighted-prior": Candidate(LOCAL, floor=True, prior="weighted"),
    "mmd-floor": Candidate(LOCAL_AUTO, floor=True),
    "mmd-floor-mean-one": Candidate(LOCAL_AUTO, floor=True, mean_one=True),
    "mmd-floor-weighted-prior": Candidate(LOCAL_AUTO, floor=True, prior="weighted"),
}

# The settings that ``tuned.py`` chooses from for each task: a reference for the default, and no candidates.
TUNED: dict[str, Candidate] = {
    "tuned-kl": Candidate(KL(), join=False),
    "tuned-kl-join": Candidate(KL()),
    "tuned-kl-auto-join": Candidate(KL(width="auto")),
    "tuned-mmd": Candidate(MMD(), join=False),
    "tuned-mmd-join": Candidate(MMD()),
    "tuned-mmd-wide-join": Candidate(MMD(width=0.1)),
    "tuned-mmd-auto-join": Candidate(MMD(width="auto")),
    "tuned-squared": Candidate(Squared(), join=False),
    "tuned-squared-join": Candidate(Squared()),
    "tuned-squared-auto-join": Candidate(Squared(width="auto")),
    "tuned-wasserstein": Candidate(Wasserstein(), join=False),
    "tuned-wasserstein-fast-join": Candidate(Wasserstein(step_size=0.1)),
}


class Weighting:
    """The weighted loss of a batch under a candidate: an objective for ``training.fit``."""

    def __init__(
        self,
        candidate: Candidate,
        network: nn.Module,
        y_train: Tensor,
        x_trusted: Tensor,
        y_trusted: Tensor,
        num_classes: int | None,
    ) -> None:
        self.candidate, self.network, self.num_classes = candidate, network, num_classes
        self.y_train, self.x_trusted, self.y_trusted = y_train, x_trusted, y_trusted
        self.criterion = criterion_for(num_classes)
        self.comparable = ComparableLosses(self.criterion, candidate.compare if num_classes else None)
        trusted = TensorDataset(x_trusted, y_trusted)
        settings = {"mean_one": candidate.mean_one, "cautious": False}
        self.reweight = adiw.ADIW(network, self.comparable, trusted, len(y_train), candidate.divergence, **settings)
        self.factor: Tensor | None = None  # (num_classes,)
        self.steps = 0

    def __call__(self, outputs: Tensor, targets: Tensor, index: Tensor) -> Tensor:
        if self.steps % VAL_EVERY == 0:
            self._look_at_trusted()
        self.steps += 1
        with torch.no_grad():  # the losses that are matched are not those that are trained on
            self.reweight(outputs, targets, index)
        weights = self.reweight.weights[index]
        if self.candidate.floor:
            is_trusted = index >= len(self.y_train) - len(self.y_trusted)
            weights = torch.where(is_trusted, weights.clamp_min(1), weights)
        if self.factor is not None:
            weights = weights * self.factor[targets]
        return (weights * self.criterion(outputs, targets)).mean()

    def _look_at_trusted(self) -> None:
        if self.num_classes is None:
            return
        if self.candidate.compare is not None:
            with torch.no_grad():
                losses = self.criterion(self.network(self.x_trusted), self.y_trusted)
            self.comparable.means = shrunken_means(losses, self.y_trusted, self.num_classes)
        if self.candidate.prior == "given" and self.factor is None:
            self.factor = adiw.class_prior_ratio(self.y_train, self.y_trusted, self.num_classes)
        if self.candidate.prior == "weighted":
            self.factor = weighted_prior_ratio(self.reweight.weights, self.y_train, self.y_trusted, self.num_classes)


class ComparableLosses:
    """A criterion whose losses are divided by, or less, the mean trusted loss of their given class."""

    def __init__(self, criterion: Criterion, compare: Literal["ratio", "difference"] | None) -> None:
        self.criterion, self.compare = criterion, compare
        self.means: Tensor | None = None  # (num_classes,)

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        losses = self.criterion(outputs, targets)
        if self.compare is None or self.means is None:
            return losses
        means = self.means[targets]
        return losses / means if self.compare == "ratio" else losses - means


def shrunken_means(losses: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """Mean loss of each class, shrunk towards the mean of all by PSEUDO_SAMPLES samples: (num_classes,).

    >>> shrunken_means(torch.tensor([1.0, 3.0]), torch.tensor([0, 0]), 2)
    tensor([2., 2.])
    """
    total = torch.zeros(num_classes).index_add_(0, labels, losses)
    count = torch.bincount(labels, minlength=num_classes)
    mean = losses.mean().clamp_min(1e-6)  # a network that has learnt every trusted sample
    return (total + PSEUDO_SAMPLES * mean) / (count + PSEUDO_SAMPLES)


def weighted_prior_ratio(weights: Tensor, y_train: Tensor, y_trusted: Tensor, num_classes: int) -> Tensor:
    """p_trusted(y) / p_weighted(y), shrunk towards one by PSEUDO_COUNT samples: (num_classes,).

    >>> weighted_prior_ratio(torch.ones(4), torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1]), 2)
    tensor([1., 1.])
    """
    mass = torch.zeros(num_classes).index_add_(0, y_train, weights)
    expected = mass / mass.sum().clamp_min(1e-12) * len(y_trusted)
    return (torch.bincount(y_trusted, minlength=num_classes) + PSEUDO_COUNT) / (expected + PSEUDO_COUNT)
