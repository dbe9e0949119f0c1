"""Weights from a divergence: a few projected-gradient steps for each batch, from the result of the last estimate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Generator, Tensor, nn

from adiw.divergences import Divergence, Learner, Problem, learns
from adiw.matching.batches import Kept, MatchedBatches, finite_mask, match
from adiw.matching.loss_ranks import evidence_of_smaller
from adiw.matching.weight_limits import NEGLIGIBLE
from adiw.reweighting.extra_state import ResumableGenerator
from adiw.reweighting.loss_shapes import nearest
from adiw.reweighting.sample_index import write_by_index
from adiw.reweighting.transforms import LossValue, Transform, TransformedBatch

if TYPE_CHECKING:
    from adiw.reweighting.step import Step
    from adiw.reweighting.validation_schedule import ValidationBatch
    from adiw.reweighting.weight_state import WeightState


@dataclass(frozen=True)
class EstimationResult:
    """The problem of one batch and its solution, from which objective and gradients can be evaluated later."""

    problem: Problem
    start: Tensor  # params before the first step
    end: Tensor  # params after the last step
    params: Tensor  # what the next estimate starts from: ``end``, and the given params of excluded samples
    weights: Tensor  # (n,) of the training samples; arbitrary for excluded ones
    memory: Mapping[str, Tensor]


class Estimate(NamedTuple):
    """What an estimator returns for the g samples of a step."""

    weights: Tensor  # (g,) for the loss, before limits
    estimates: Tensor  # (g,) from which the samples' next estimates start
    mask: Tensor | None  # (g,) booleans: what is stored; None for all


class DivergenceEstimator(nn.Module):
    """Weights of a batch by ``steps`` projected-gradient steps on a divergence: lines 1 and 4 to 9 of Algorithm 1.

    What the next step starts from, apart from the stored estimates, is kept here: ``coefficients``, one for each of
    ``num_val`` validation samples, or ``window_losses`` of a stream, whose last ``window`` samples have estimates;
    and the ``memory`` of a divergence that learns (a critic network). A ``cautious`` step counts as far as there is
    evidence that trusted losses are smaller.
    """

    coefficients: Tensor
    window_losses: Tensor

    needs_uncertainty = False  # as ``RankEstimator`` does

    def __init__(
        self,
        divergence: Divergence,
        transform: Transform,
        steps: int,
        randomness: ResumableGenerator,
        num_val: int,
        window: int | None,
        cautious: bool = False,
    ) -> None:
        super().__init__()
        self.cautious = cautious
        self.divergence, self.transform, self.steps, self.randomness = divergence, transform, steps, randomness
        self.memory: dict[str, Tensor] = {}
        self.last: EstimationResult | None = None
        self.estimated: Kept | None = None  # all of these validation samples have coefficients
        self.by_train = divergence.side == "train"
        self.learner = divergence if learns(divergence) else None
        if not self.by_train:
            self.trust(num_val)
        elif window is not None and isinstance(transform, LossValue):
            self.register_buffer("window_losses", torch.full((window + 1,), float("nan")))

    def trust(self, num_val: int) -> None:
        """Start again with so many validation samples, or elements of them: their coefficients are not known yet."""
        if not self.by_train:
            self.register_buffer("coefficients", torch.full((num_val,), float("nan")))

    def estimate(
        self, step: Step, train: TransformedBatch, val: ValidationBatch | None, state: WeightState
    ) -> Estimate:
        assert val is not None
        limits = (self.transform.num_groups, self.transform.minimum)
        # z may also be that of a separate pass, whose losses may not be finite.
        finite, kept = False, None
        if not torch.compiler.is_compiling():
            finite, kept = step.finite is None and train.z.data_ptr() == step.losses.data_ptr(), val.kept
        batches = match(train.z, val.z, train.group, val.group, *limits, kept, finite)
        generator = self.randomness.generator
        if self.learner is not None and not self.memory:
            self.memory = start_memory(self.learner, batches, generator)
        if self.by_train:
            params, all_finite = self._old_estimates(step, train.z, state), True
        else:
            params = self.coefficients.index_select(0, val.index)
            all_finite = batches.kept is not None and batches.kept is self.estimated
        result = run_estimation(self.divergence, batches, params, self.memory, self.steps, generator, all_finite)
        if batches.kept is not None and not all_finite and step.past_warmup is None:
            self.estimated = batches.kept
        # As ``self.last = result``, for which nn.Module takes ten times as long.
        object.__setattr__(self, "last", result)
        self._keep(result, params, val.index, step.past_warmup)

        estimates = result.weights
        if self.cautious:
            old = params if self.by_train else self._old_estimates(step, train.z, state)
            known = batches.kept is not None  # then all losses are finite
            evidence = evidence_of_smaller(train.z[:, 0], val.z[:, 0], all_finite=known)
            estimates = torch.lerp(old, estimates, evidence)
        included = None if batches.membership_train is None else batches.included_train
        if included is not None:
            estimates = torch.where(included, estimates, state.read_estimates(step))
        weights = estimates
        if train.group is not None and (factor := self.transform.class_factor(train.group)) is not None:
            weights = weights * factor
        if included is not None:
            weights = weights * included.any()  # Algorithm 2: zero where no class could be estimated
        return Estimate(weights, estimates, included)

    def _old_estimates(self, step: Step, z: Tensor, state: WeightState) -> Tensor:
        """The estimate (g,) of each sample so far; a new sample of a stream has that of the nearest loss, or one."""
        if not state.is_stream:
            return state.read_estimates(step).nan_to_num(1, 1, 1)
        known: Tensor | None = getattr(self, "window_losses", None)
        if known is None:
            return torch.ones_like(z[:, 0])
        old = nearest(known[:-1], state.estimates, z[:, 0]).nan_to_num(1, 1, 1)
        write_by_index(known, step.index, z[:, 0], step.finite, step.distinct)
        return old.to(z.dtype)

    def _keep(self, result: EstimationResult, params: Tensor, val_index: Tensor, past_warmup: Tensor | None) -> None:
        """Keep coefficients and memory for the next step, except during the warm-up."""
        if not self.by_train:
            new = result.params if past_warmup is None else torch.where(past_warmup, result.params, params)
            coefficients = self.coefficients
            coefficients.index_copy_(0, val_index, new.to(coefficients.dtype))
        for key, value in result.memory.items():
            old = self.memory[key]
            old.copy_(value if past_warmup is None else torch.where(past_warmup, value, old))

    def _apply(self, fn: Any, recurse: bool = True) -> DivergenceEstimator:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.memory = {key: fn(value) for key, value in self.memory.items()}
        self.last = None
        return self


def run_estimation(
    divergence: Divergence,
    batches: MatchedBatches,
    params: Tensor,
    memory: Mapping[str, Tensor],
    steps: int,
    generator: Generator,
    all_finite: bool = False,
) -> EstimationResult:
    """``steps`` times params <- project(params - eta gradient). Called without gradient.

    ``params`` are (n,) or (m,), see ``State``. Those that are nan start from the problem's initial value;
    ``all_finite`` promises that there are none. ``memory`` is that of the last result, empty at first.
    """
    known = None if all_finite else finite_mask(params)
    if hasattr(divergence, "learn"):
        memory = memory or start_memory(divergence, batches, generator)  # type: ignore[arg-type]
        if memory:  # empty where there is nothing to learn, such as for an exact critic
            weights = params if known is None else torch.where(known, params, 1)
            memory = divergence.learn(batches, weights, memory, generator)
            batches = replace(batches, memory=memory)
    problem = divergence.problem(batches)
    start = params if known is None else torch.where(known, params, problem.initial())
    end = descend(problem, start, divergence.step_size, steps)
    if batches.membership_train is None:  # all samples are included
        params = end
    else:
        included = batches.included_train if divergence.side == "train" else batches.included_val
        params, end = torch.where(included, end, params), torch.where(included, end, start)
    # Negligible weights become zero: they would make denormal gradients, which are many times slower on a CPU.
    weights = torch.threshold(problem.weights(end), NEGLIGIBLE, 0)
    return EstimationResult(problem, start, end, params, weights, memory)


def start_memory(divergence: Learner, batches: MatchedBatches, generator: Generator) -> dict[str, Tensor]:
    """The first memory of a divergence that learns, for z of this shape."""
    return divergence.start(batches.z_train.shape[1], batches.num_groups, batches.z_train, generator)


def descend(problem: Problem, params: Tensor, step_size: float, steps: int) -> Tensor:
    """params <- project(params - eta dJ/dparams), ``steps`` times."""
    for _ in range(steps):
        params = problem.project(params.sub(scaled_gradient(problem, params), alpha=step_size))
    return params


def scaled_gradient(problem: Problem, params: Tensor) -> Tensor:
    """dJ/dparams, times the problem's ``step_scale`` if it has one (MMD's local step). A step is eta times this."""
    scale: Tensor | None = getattr(problem, "step_scale", None)
    return problem.gradient(params) if scale is None else scale * problem.gradient(params)
