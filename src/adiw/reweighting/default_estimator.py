"""The default estimators: weights from the ranks of losses, with the class mix of the trusted samples."""

from __future__ import annotations

from typing import Any

import torch
from torch import Generator, Tensor, nn

from adiw.matching.batches import known_true, none_if_true
from adiw.matching.groups import group_sum
from adiw.matching.loss_ranks import (
    RankWeights,
    class_factor,
    evidence_of_larger_mean,
    evidence_of_smaller,
    num_parts,
    rank_weights,
    weights_by_class,
)
from adiw.reweighting.divergence_estimator import Estimate, EstimationResult
from adiw.reweighting.extra_state import from_one_value, one_value
from adiw.reweighting.sample_index import write_by_index
from adiw.reweighting.step import Step
from adiw.reweighting.transforms import TransformedBatch
from adiw.reweighting.validation_schedule import ValidationBatch
from adiw.reweighting.weight_state import WeightState

POOL = 2048  # losses of at most so many training samples, and of so many trusted samples, are ranked
RATE = 0.35  # by which a weight moves towards its new estimate each time that its sample is in a batch
TRUSTED_SHARE = 0.5  # of all weight: what trusted samples get at most where the network predicts wrong labels
PREDICTED = 2.0  # threshold of the evidence for that by losses, see ``evidence_of_smaller``
UNEXPECTED = 2.5  # by errors, see ``evidence_of_larger_mean``
LOOK = (3, 6)  # epochs between which it is looked for: classes are predicted by then, labels are not memorised yet


class RankEstimator(nn.Module):
    """Weights of a batch from the last losses of all samples, see ``matching/loss_ranks.py``.

    With ``trusted_index``, the positions of the trusted samples in the training set, trusted losses are those of
    their own training passes, and no other pass is needed. Trusted samples get the full weight, and up to twice as
    much where there is evidence of wrong labels. Where targets are classes, weights are multiplied by
    p_trusted(y) / p_weighted(y), shrunk towards one. ``num_trusted`` is the number of trusted losses in ``refit``.

    Wrong labels that the network predicts, such as those of another model, have small losses, and the trusted labels
    large ones. ``predicted_errors``, from 0 to 1, is the largest evidence of that in the epochs ``LOOK``: trusted
    losses are larger, or trusted labels are not the predicted ones more often than the probabilities tell, though
    the network is as sure of its predictions for trusted samples as for others (it is less sure where their classes
    or inputs are rare among the training samples). Evidence of smaller trusted losses cancels it. Then up to
    ``TRUSTED_SHARE`` of all weight moves to the trusted samples. The network learns from them, and gives the wrong
    labels large losses.
    """

    losses: Tensor
    labels: Tensor
    train_pool: Tensor
    trusted_pool: Tensor | None
    is_trusted: Tensor | None
    uncertainty: Tensor | None
    unexpected: Tensor | None
    predicted_errors: Tensor
    ranked: Tensor
    count: Tensor
    rank_weights: Tensor
    evidence: Tensor

    def __init__(
        self,
        num_train: int,
        num_trusted: int,
        trusted_index: Tensor | None,
        generator: Generator,
        rate: float = RATE,
    ) -> None:
        super().__init__()
        self.rate = rate
        self.memory: dict[str, Tensor] = {}  # as of a divergence that learns: there is none
        self.last: EstimationResult | None = None
        slots = num_train + 1  # the last one takes what must not be stored
        is_trusted = torch.zeros(slots, dtype=torch.bool)
        if trusted_index is not None:
            if int(trusted_index.max()) >= num_train:
                raise ValueError(
                    f"num_train is {num_train}, but a trusted sample is at position {int(trusted_index.max())}: "
                    "num_train must be len(train_set) of train_set = adiw.Indexed(train_set, trusted)"
                )
            is_trusted[trusted_index] = True
        others = (~is_trusted[:-1]).nonzero().flatten()
        joined = trusted_index is not None
        self.register_buffer("losses", torch.full((slots,), float("nan")))  # the last loss of each sample
        self.register_buffer("labels", torch.full((slots,), -1))  # of each sample, -1 before its first batch
        self.register_buffer("train_pool", _draw(others if len(others) else torch.arange(num_train), generator))
        self.register_buffer("trusted_pool", _draw(is_trusted.nonzero().flatten(), generator) if joined else None)
        self.register_buffer("is_trusted", is_trusted if joined else None)
        # -log of the largest predicted probability of each sample, where trusted samples are trained on.
        self.register_buffer("uncertainty", torch.full((slots,), float("nan")) if joined else None)
        # Whether its label is not the predicted class, one or zero, less the predicted probability of that.
        self.register_buffer("unexpected", torch.full((slots,), float("nan")) if joined else None)
        self.register_buffer("predicted_errors", torch.zeros(()))
        self.needs_uncertainty = joined
        self.trusted_only = num_train / max(int(is_trusted.sum()), 1)  # weight if trusted samples have all of it
        # The fields of ``RankWeights`` at the last ``refit``.
        size = num_trusted if self.trusted_pool is None else len(self.trusted_pool)
        self.register_buffer("ranked", torch.full((len(self.train_pool),), torch.inf))
        self.register_buffer("count", torch.ones((), dtype=torch.long))
        self.register_buffer("rank_weights", torch.ones(num_parts(size)))
        self.register_buffer("evidence", torch.zeros(()))
        self.factors: Tensor | None = None  # (C,) of the weights of each class, None where targets are not classes

    @property
    def joined(self) -> bool:
        """Whether the trusted samples are part of the training set."""
        return self.trusted_pool is not None

    def with_last_losses(self, other: RankEstimator) -> RankEstimator:
        """``other``, an estimator with other trusted samples, with the losses and labels that this one has stored."""
        other.to(self.losses.device)
        other.losses.copy_(self.losses)
        other.labels.copy_(self.labels)
        other.evidence.copy_(self.evidence)
        other.predicted_errors.copy_(self.predicted_errors)
        for values, own in ((other.uncertainty, self.uncertainty), (other.unexpected, self.unexpected)):
            if values is not None and own is not None:
                values.copy_(own)
        other.factors = None if self.factors is None else torch.ones_like(self.factors)
        return other

    def prepare(self, outputs: Any, group: Tensor | None) -> None:
        """Decide in the first step whether targets are classes: integers (n,) with outputs (n, C)."""
        classes = group is not None and isinstance(outputs, Tensor) and outputs.ndim == 2 and outputs.shape[1] > 1
        if classes and self.factors is None:
            self.factors = self.losses.new_ones(outputs.shape[1])

    def see(self, step: Step, uncertainty: Tensor, wrong: Tensor) -> None:
        """Store -log of the largest predicted probability of each sample of a step, (g,).

        ``wrong`` (g,): its label is not the predicted class.
        """
        assert self.uncertainty is not None
        assert self.unexpected is not None
        write_by_index(self.uncertainty, step.index, uncertainty, distinct=step.distinct)
        write_by_index(self.unexpected, step.index, wrong + (-uncertainty).expm1(), distinct=step.distinct)

    def refit(self, state: WeightState, val: ValidationBatch | None = None) -> None:
        """Estimate the weight of each rank and the factor of each class.

        Args:
            state: it has the estimates of all samples.
            val: trusted samples that are not in the training set.
        """
        trusted = self.losses[self.trusted_pool] if val is None else val.z[:, 0]
        table = rank_weights(self.losses[self.train_pool], trusted, before=self.evidence)
        self.ranked.copy_(table.ranked)
        self.count.copy_(table.count)
        self.rank_weights.copy_(table.weights)
        self.evidence.copy_(table.evidence)
        if self.factors is not None:
            labels = self.labels[self.trusted_pool] if val is None else val.group
            assert labels is not None
            weight = group_sum(state.estimates[self.train_pool], self.labels[self.train_pool], len(self.factors))
            number = group_sum(torch.ones_like(labels, dtype=weight.dtype), labels, len(self.factors))
            self.factors.copy_(class_factor(weight, number))
            self._find_predicted_errors(state)

    def _find_predicted_errors(self, state: WeightState) -> None:
        if self.uncertainty is None or self.unexpected is None or self.trusted_pool is None:
            return
        if not self.needs_uncertainty:
            return
        over = none_if_true(state.seen_samples > LOOK[1] * state.num_train)
        if over is None:
            self.needs_uncertainty = False
            return
        (train, losses), (train_doubts, doubts), (train_errors, errors) = (
            (values[self.train_pool], values[self.trusted_pool])
            for values in (self.losses, self.uncertainty, self.unexpected)
        )
        found = torch.maximum(
            evidence_of_smaller(losses, train, PREDICTED), evidence_of_larger_mean(train_errors, errors, UNEXPECTED)
        )
        found = found * (1 - evidence_of_smaller(doubts, train_doubts))
        found = torch.maximum(self.predicted_errors, found) * (1 - self.evidence)
        looks = (state.seen_samples > LOOK[0] * state.num_train) & ~over
        self.predicted_errors.copy_(torch.where(looks, found, self.predicted_errors))

    def estimate(
        self, step: Step, train: TransformedBatch, val: ValidationBatch | None, state: WeightState
    ) -> Estimate:
        self._record(step, train)
        if state.is_stream:  # its window has few batches: losses of older networks cannot be compared
            self.refit(state, val)
            old = torch.ones_like(train.z[:, 0])
        else:
            old = state.read_estimates(step).nan_to_num(1, 1, 1)
        table = RankWeights(self.ranked, self.count, self.rank_weights, self.evidence)
        # Trusted samples that are not trained on have large losses once the network memorises the others. The
        # evidence is then zero, and the weights stay as they are.
        rate = self.rate if self.joined else self.rate * self.evidence.to(old.dtype)
        estimates = torch.lerp(old, table.at(train.z[:, 0]).to(old.dtype), rate)
        weights = estimates
        trusted = None if self.is_trusted is None else self.is_trusted.index_select(0, step.index)
        if trusted is not None:
            weights = torch.where(trusted, table.full * (1 + table.evidence), weights)
        if self.factors is not None and train.group is not None:
            weights = weights * self.factors.index_select(0, train.group.clamp(0, len(self.factors) - 1))
        weights = weights.to(old.dtype)
        if trusted is not None and not known_true(self.predicted_errors == 0):
            known = state.seen_samples > LOOK[1] * state.num_train
            share = (TRUSTED_SHARE * self.predicted_errors * known).to(old.dtype)
            weights = torch.lerp(weights, trusted.to(old.dtype) * self.trusted_only, share)
        return Estimate(weights, estimates, step.finite)

    def _record(self, step: Step, train: TransformedBatch) -> None:
        """Store the losses and labels of the samples of a step."""
        write_by_index(self.losses, step.index, train.z[:, 0], distinct=step.distinct)
        if self.factors is not None and train.group is not None:
            self.labels.index_copy_(0, step.index, train.group)

    def get_extra_state(self) -> tuple[dict[str, Any]]:
        return one_value({"factors": self.factors})

    def set_extra_state(self, state: Any) -> None:
        state = from_one_value(state)
        if not isinstance(state, dict) or "factors" not in state:
            raise ValueError(f"this is not the state of a rank estimator: expected factors, got {state!r}")
        factors = state["factors"]
        self.factors = None if factors is None else factors.clone().to(self.losses)
        self.needs_uncertainty = self.joined

    def _apply(self, fn: Any, recurse: bool = True) -> RankEstimator:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.factors = None if self.factors is None else fn(self.factors)
        return self

    def __repr__(self) -> str:
        return "RankEstimator()"


class ElementRankEstimator(nn.Module):
    """Weights of elements from the ranks of their losses among those of the same class, in each batch alone."""

    needs_uncertainty = False

    def __init__(self) -> None:
        super().__init__()
        self.num_classes: int | None = None  # known in each call; None where targets are not classes
        self.memory: dict[str, Tensor] = {}
        self.last: EstimationResult | None = None

    def estimate(
        self, step: Step, train: TransformedBatch, val: ValidationBatch | None, state: WeightState
    ) -> Estimate:
        assert val is not None
        weights = weights_by_class(train.z[:, 0], train.group, val.z[:, 0], val.group, self.num_classes)
        return Estimate(weights, weights, step.finite)


def _draw(index: Tensor, generator: Generator) -> Tensor:
    """At most POOL of these indices, drawn at random."""
    return index if len(index) <= POOL else index[torch.randperm(len(index), generator=generator)[:POOL]]
