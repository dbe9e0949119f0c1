"""The shared suite: checks that every divergence must pass on every pair of batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.testing import assert_close

from adiw.divergences import Problem, learns
from adiw.matching.batches import MatchedBatches, match
from adiw.reweighting.divergence_estimator import descend, run_estimation
from adiw.testing.batches import NAN, Batch, with_excluded
from adiw.testing.case import Case

ROUNDING: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-9}  # float64, quantities of order one, a few hundred operations
STEPS = 3
FUNCTIONS = [name for name in vars(Problem) if not name.startswith("_")]


@dataclass(frozen=True)
class Setup:
    """A case on a batch: the problem, with what the divergence has learned there, and points to try it at."""

    case: Case
    batch: Batch
    batches: MatchedBatches
    memory: Mapping[str, Tensor]
    problem: Problem

    @property
    def has_weights(self) -> bool:
        return self.case.divergence.side == "train"

    def own(self, train: Tensor, val: Tensor) -> Tensor:
        """The one of the two that indexes the parameters."""
        return train if self.has_weights else val

    def anywhere(self, seed: int = 0) -> Tensor:
        """Positive parameters that need not be feasible, like stored ones."""
        generator = torch.Generator().manual_seed(seed)
        size = len(self.own(self.batch.z_train, self.batch.z_val))
        return 0.3 + torch.rand(size, generator=generator, dtype=self.batches.z_train.dtype)

    def outside(self, seed: int = 0) -> Tensor:
        """Parameters of both signs, one positive in each group (all negative ones cannot be rescaled)."""
        generator = torch.Generator().manual_seed(seed)
        params = self.anywhere(seed)
        params = params + 2 * torch.randn(len(params), generator=generator, dtype=params.dtype)
        for train, val in self.batch.groups():
            first = self.own(train, val)[0]
            params[first] = params[first].abs() + 0.1
        return params

    def points(self) -> Iterator[Tensor]:
        """Parameters near the feasible set and far from it."""
        for seed in range(5):
            yield from (self.outside(seed), self.anywhere(seed), 100 * self.outside(seed))

    def feasible(self, seed: int = 0) -> Tensor:
        return self.problem.project(self.anywhere(seed))

    def estimate(self, start: Tensor) -> Tensor:
        """The parameters after a few steps, with a fixed memory."""
        return descend(self.problem, start, self.case.divergence.step_size, STEPS)


def learned(case: Case, batches: MatchedBatches) -> dict[str, Tensor]:
    """The memory after one batch; empty for a divergence that does not learn."""
    if not learns(case.divergence):
        return {}
    generator = torch.Generator().manual_seed(0)
    memory = case.divergence.start(batches.z_train.shape[1], batches.num_groups, batches.z_train, generator)
    return case.divergence.learn(batches, torch.ones_like(batches.z_train[:, 0]), memory, generator)


def setup(
    case: Case, batch: Batch, memory: Mapping[str, Tensor] | None = None, dtype: torch.dtype = torch.float64
) -> Setup:
    batches = batch.batches(dtype)
    memory = learned(case, batches) if memory is None else memory
    problem = case.divergence.problem(replace(batches, memory=memory))
    missing = [name for name in FUNCTIONS if not callable(getattr(problem, name, None))]
    assert not missing, f"{type(problem).__name__} lacks {', '.join(missing)}: expected {', '.join(FUNCTIONS)}"
    return Setup(case, batch, batches, memory, problem)


def assert_feasible(at: Setup, params: Tensor, tolerance: float) -> None:
    """The constraints of the case hold in every group. A negative entry is an error, never rounding."""
    if at.case.violation is None:
        own = at.own(*at.batch.used())
        assert_close(at.problem.project(params)[own], params[own], rtol=tolerance, atol=tolerance)
    for train, val in at.batch.groups():
        own = params[at.own(train, val)].double()
        assert bool((own >= 0).all()), f"negative: {own.tolist()}"
        if at.case.violation is not None:
            arrays = (own, at.batch.z_train[train].double(), at.batch.z_val[val].double())
            worst = at.case.violation(*(array.numpy() for array in arrays))
            assert worst <= tolerance, f"{worst} outside: {own.tolist()}"


def check_gradient_is_the_derivative(case: Case, batch: Batch) -> None:
    """Against autograd, and central differences: their error h^2 J''' / 6 + 1e-16 J / h is below 1e-6 here."""
    at = setup(case, batch)
    params = at.anywhere().requires_grad_()
    gradient = at.problem.gradient(params.detach())
    (derivative,) = torch.autograd.grad(at.problem.objective(params), params)
    assert_close(gradient, derivative, **ROUNDING)
    step = 1e-5
    for position, unit in enumerate(torch.eye(len(params), dtype=params.dtype)):
        ahead, behind = (at.problem.objective(params.detach() + sign * step * unit) for sign in (1, -1))
        difference = (ahead - behind) / (2 * step)
        assert_close(gradient[position], difference, rtol=1e-6, atol=1e-6)


def check_projection_is_feasible(case: Case, batch: Batch) -> None:
    at = setup(case, batch)
    for point in at.points():
        assert_feasible(at, at.problem.project(point), 1e-9)


def check_projection_is_idempotent(case: Case, batch: Batch) -> None:
    at = setup(case, batch)
    for point in at.points():
        once = at.problem.project(point)
        assert_close(at.problem.project(once), once, **ROUNDING)


def check_projection_is_the_nearest_point(case: Case, batch: Batch) -> None:
    """(u - Pu)'(q - Pu) <= 0 for all feasible q, which holds for the nearest point of a convex set and no other."""
    if not case.nearest:
        return
    at = setup(case, batch)
    own = at.own(*batch.used())
    feasible = [at.problem.project(at.outside(seed))[own] for seed in range(20)] + [at.problem.initial()[own]]
    for point in at.points():
        nearest = at.problem.project(point)[own]
        away = point[own] - nearest
        for other in feasible:
            assert float(away @ (other - nearest)) <= 1e-9 * float(1 + away.abs().sum())


def check_start_is_feasible_with_mean_weight_one(case: Case, batch: Batch) -> None:
    at = setup(case, batch)
    start = at.problem.initial()
    assert_feasible(at, start, 1e-9)
    weights = at.problem.weights(start)
    for train, _ in batch.groups():
        assert_close(weights[train].mean(), torch.ones((), dtype=weights.dtype), **ROUNDING)


def check_weights_are_usable(case: Case, batch: Batch) -> None:
    """(n,) in the dtype of z, finite and not negative for samples that are not excluded; shapes of all functions."""
    for dtype in (torch.float32, torch.float64):
        at = setup(case, batch, dtype=dtype)
        params = at.estimate(at.feasible())
        assert params.shape == at.problem.initial().shape == at.problem.gradient(params).shape
        assert params.shape == at.own(batch.group_train, batch.group_val).shape
        assert at.problem.objective(params).shape == ()
        weights = at.problem.weights(params)
        assert weights.shape == batch.group_train.shape
        assert weights.dtype == params.dtype == dtype
        used = weights[at.batches.group_train >= 0]
        assert bool(used.isfinite().all())
        assert bool((used >= 0).all())


def check_order_does_not_matter(case: Case, batch: Batch) -> None:
    """Samples in another order give the same numbers in that order, for the training and the validation batch."""
    generator = torch.Generator().manual_seed(3)
    train, val = (torch.randperm(len(z), generator=generator) for z in (batch.z_train, batch.z_val))
    stay_train, stay_val = torch.arange(len(train)), torch.arange(len(val))
    at = setup(case, batch)
    params = at.anywhere()
    for rows, columns in ((train, stay_val), (stay_train, val), (train, val)):
        moved = setup(case, batch.take(rows, columns), at.memory)
        own = at.own(rows, columns)
        assert_close(moved.problem.objective(params[own]), at.problem.objective(params), **ROUNDING)
        assert_close(moved.problem.gradient(params[own]), at.problem.gradient(params)[own], **ROUNDING)
        end = at.estimate(params)
        assert_close(moved.estimate(params[own]), end[own], **ROUNDING)
        assert_close(moved.problem.weights(end[own]), at.problem.weights(end)[rows], **ROUNDING)


def check_excluded_samples_change_nothing(case: Case, batch: Batch) -> None:
    """Neither their z nor their stored parameters change the others."""
    train, val = batch.used()
    alone, mixed_batch = batch.take(train, val), with_excluded(batch)
    extra = torch.zeros(len(mixed_batch.z_train) - len(batch.z_train), dtype=torch.bool)
    keep = torch.cat([train, extra]), torch.cat([val, extra])
    expected = setup(case, alone)
    at = setup(case, mixed_batch, expected.memory)
    own = at.own(*keep)
    params = expected.anywhere()
    for filler in (0.0, 1.0, -7.0, 1e6):
        filled = torch.full(own.shape, filler, dtype=params.dtype).masked_scatter(own, params)
        end, other = expected.estimate(params), at.estimate(filled)
        assert_close(other[own], end, **ROUNDING)
        feasible, mixed = expected.feasible(), at.problem.project(filled)
        assert_close(mixed[own], feasible, **ROUNDING)
        assert_close(at.problem.objective(mixed), expected.problem.objective(feasible), **ROUNDING)
        assert_close(at.problem.weights(other)[keep[0]], expected.problem.weights(end), **ROUNDING)
        assert bool((at.problem.gradient(filled)[~own] == 0).all())


def check_small_step_lowers_the_objective(case: Case, batch: Batch) -> None:
    """From several feasible points that are not yet optimal."""
    if not case.descends:
        return
    at = setup(case, batch)
    for seed in range(5):
        params = at.feasible(seed)
        gradient = at.problem.gradient(params)
        step = 1e-4 / float(1 + gradient.abs().max())
        moved = at.problem.project(params - step * gradient)
        before, after = float(at.problem.objective(params)), float(at.problem.objective(moved))
        assert after < before - 1e-12 * (1 + abs(before)), f"{before} became {after}"


def check_groups_are_separate_problems(case: Case, batch: Batch) -> None:
    """All classes in one call give the same result as a loop over the classes.

    A memory is shared between the classes, so divergences with a memory have their own test of this.
    """
    if setup(case, batch).memory:
        return
    train, val = batch.used()
    at = setup(case, batch.take(train, val))
    params = at.anywhere()
    end, gradient = at.estimate(params), at.problem.gradient(params)
    total = torch.zeros((), dtype=params.dtype)
    for rows, columns in at.batch.groups():
        group = int(at.batch.group_train[rows[0]])
        own = at.own(rows, columns)
        single = setup(case, at.batch.only(group))
        total = total + single.problem.objective(params[own])
        assert_close(gradient[own], single.problem.gradient(params[own]), **ROUNDING)
        assert_close(end[own], single.estimate(params[own]), **ROUNDING)
        assert_close(at.problem.initial()[own], single.problem.initial(), **ROUNDING)
        assert_close(at.problem.weights(end)[rows], single.problem.weights(end[own]), **ROUNDING)
    # A group of the batch may be without samples: it must add nothing.
    assert_close(at.problem.objective(params), total, **ROUNDING, msg=lambda m: f"sum of J over the groups: {m}")


def check_float32_is_close_to_float64(case: Case, batch: Batch) -> None:
    """To 1e-4: float32 has seven digits, kernels and a few steps may lose three."""
    exact = setup(case, batch)
    memory = {key: value.float() if value.is_floating_point() else value for key, value in exact.memory.items()}
    rough = setup(case, batch, memory, torch.float32)
    used = exact.batches.group_train >= 0
    # Not from uniform weights, where the Wasserstein distance has kinks and rounding would decide the gradient.
    start = exact.feasible()
    expected = exact.problem.weights(exact.estimate(start))
    found = rough.problem.weights(rough.estimate(start.float()))
    assert_close(found[used].double(), expected[used], rtol=1e-4, atol=1e-4)
    assert_feasible(rough, rough.estimate(start.float()), 1e-5)


def check_inputs_are_not_changed(case: Case, batch: Batch) -> None:
    at, fresh = setup(case, batch), batch.batches(torch.float64)
    params = at.outside()
    before = params.clone(), fresh.z_train, fresh.z_val
    for function in (at.problem.objective, at.problem.gradient, at.problem.project, at.problem.weights):
        function(params)
    for kept, now in zip(before, (params, at.batches.z_train, at.batches.z_val), strict=True):
        assert torch.equal(kept, now)


def check_groups_may_be_none_when_no_sample_is_excluded(case: Case, batch: Batch) -> None:
    """On a CPU, batches have None as groups for a single group without excluded samples."""
    at = setup(case, batch)
    if batch.num_groups > 1 or not bool(at.batches.included_train.all() & at.batches.included_val.all()):
        return
    none = replace(at.batches, membership_train=None, membership_val=None, memory=at.memory)
    problem, params = case.divergence.problem(none), at.anywhere()
    for name in ("objective", "gradient", "project", "weights"):
        assert_close(getattr(problem, name)(params), getattr(at.problem, name)(params), **ROUNDING)
    assert_close(problem.initial(), at.problem.initial(), **ROUNDING)
    if learns(case.divergence):
        assert learned(case, none).keys() == at.memory.keys()


def check_groups_may_be_booleans_when_samples_are_excluded(case: Case, batch: Batch) -> None:
    """A single group of scalars has booleans as groups, and z of excluded samples that no other is near."""
    if batch.num_groups > 1 or batch.z_train.shape[1] > 1:
        return
    expected, none = setup(case, batch), batch.z_train.new_tensor([[NAN], [float("inf")]])
    batches = match(torch.cat([batch.z_train, none]), torch.cat([batch.z_val, none]))
    problem = case.divergence.problem(replace(batches, memory=expected.memory))
    params = expected.feasible()
    filled = torch.cat([params, params.new_tensor([7.0, -7.0])])
    projected, gradient = problem.project(filled), problem.gradient(filled)
    assert_close(problem.objective(projected), expected.problem.objective(params), **ROUNDING)
    assert_close(projected[:-2], params, **ROUNDING)
    assert_close(gradient[:-2], expected.problem.gradient(params), **ROUNDING)
    assert bool((gradient[-2:] == 0).all()), "an excluded sample has a gradient"
    assert_close(problem.initial()[:-2], expected.problem.initial(), **ROUNDING)
    weights = expected.problem.weights(params)
    assert_close(problem.weights(filled)[: len(weights)], weights, **ROUNDING)


def check_no_value_is_read_by_the_host(case: Case, batch: Batch) -> None:
    """On the meta device tensors have no values: a Python branch on one, or an ``item()``, raises."""
    at = setup(case, batch)
    meta = MatchedBatches(
        *(getattr(at.batches, name).to("meta") for name in ("z_train", "z_val", "group_train", "group_val"))
    )
    memory = {key: value.to("meta") for key, value in at.memory.items()}
    problem = case.divergence.problem(replace(meta, num_groups=batch.num_groups, memory=memory))
    end = descend(problem, problem.initial(), case.divergence.step_size, STEPS)
    assert problem.weights(end).shape == batch.group_train.shape
    assert problem.objective(end).shape == ()


def check_extreme_batch(case: Case, batch: Batch) -> None:
    """Three steps in float32 from the initial parameters: finite, feasible, and no negative weight."""
    batches = batch.batches(torch.float32)
    size = len(batch.z_train if case.divergence.side == "train" else batch.z_val)
    generator = torch.Generator().manual_seed(0)
    done = run_estimation(case.divergence, batches, torch.full((size,), NAN), {}, STEPS, generator)
    at = Setup(case, batch, batches, done.memory, done.problem)
    own = at.own(*batch.used())
    weights = done.problem.weights(done.end)[batches.group_train >= 0]
    assert bool(weights.isfinite().all()), weights.tolist()
    assert bool((weights >= 0).all()), weights.tolist()
    assert bool(done.end[own].isfinite().all()), done.end.tolist()
    assert_feasible(at, done.end, 1e-5)
    assert bool(done.problem.objective(torch.where(own, done.end, 0)).isfinite())
    for value in done.memory.values():
        assert bool(value.isfinite().all())


CHECKS: list[Callable[[Case, Batch], None]] = [
    check_gradient_is_the_derivative,
    check_projection_is_feasible,
    check_projection_is_idempotent,
    check_projection_is_the_nearest_point,
    check_start_is_feasible_with_mean_weight_one,
    check_weights_are_usable,
    check_order_does_not_matter,
    check_excluded_samples_change_nothing,
    check_small_step_lowers_the_objective,
    check_groups_are_separate_problems,
    check_float32_is_close_to_float64,
    check_inputs_are_not_changed,
    check_groups_may_be_none_when_no_sample_is_excluded,
    check_groups_may_be_booleans_when_samples_are_excluded,
    check_no_value_is_read_by_the_host,
]
