"""Statistics of the weights for logs, and the two quantities of the convergence theorem."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from adiw.matching.weight_limits import effective_sample_size
from adiw.reweighting.alarms import Alarm
from adiw.reweighting.divergence_estimator import EstimationResult, scaled_gradient


@dataclass(frozen=True)
class Summary:
    """Statistics of the weights of the whole training set; samples not estimated yet have weight one."""

    steps: int  # training steps so far
    ess: float  # effective sample size (sum w)^2 / sum w^2
    mean: float
    max: float
    share_zero: float  # fraction of samples whose weight is below 1e-6
    share_at_bound: float  # fraction of samples at the largest weight allowed; nan without a bound
    objective: float  # of the divergence on the last batch; nan before the first step and without a divergence
    nonfinite_train: int  # training losses that were not finite, counted over all steps
    nonfinite_val: int  # validation losses that were not finite, counted over all evaluations
    alarms: tuple[Alarm, ...] = ()  # what is wrong, and what to change
    groups: dict[str, list[dict[str, Any]]] | None = None  # rows of "classes" and "groups", if groups were given

    def __str__(self) -> str:
        objective = "" if math.isnan(self.objective) else f", objective {self.objective:.4g}"
        alarms = f", alarms: {', '.join(alarm.name for alarm in self.alarms)}" if self.alarms else ""
        return (
            f"step {self.steps}: effective sample size {self.ess:.0f}, "
            f"weights mean {self.mean:.3f} max {self.max:.3g}, {self.share_zero:.1%} at zero{objective}{alarms}"
        )


def summarise(weights: Tensor, bound: float | None, last: EstimationResult | None) -> dict[str, float]:
    """The fields of ``Summary`` that depend on the weights (n,) and the last estimate."""
    at_bound = float("nan") if bound is None else float((weights >= bound * (1 - 1e-6)).double().mean())
    return {
        "ess": float(effective_sample_size(weights.double())),
        "mean": float(weights.double().mean()),
        "max": float(weights.max()),
        "share_zero": float((weights < 1e-6).double().mean()),
        "share_at_bound": at_bound,
        "objective": float("nan") if last is None else float(last.problem.objective(last.end)),
    }


def name_indices(counts: Tensor, shown: int = 5) -> str:
    """The indices whose count is above zero, as text that lists the first ``shown``.

    >>> name_indices(torch.tensor([0, 2, 0, 1]))
    '1, 3'
    """
    found = counts.nonzero().flatten().tolist()
    return ", ".join(map(str, found[:shown])) + (f" and {len(found) - shown} more" if len(found) > shown else "")


@dataclass(frozen=True)
class Stationarity:
    """The quantities of Theorem 1 after one backward pass."""

    gradient_norm: float  # ||grad_theta R(theta, W)||, of the weighted loss
    weight_change: float  # max over inner steps of ||eta grad_W J||_1
    w2_ratio: float  # weight_change / ||alpha grad_theta R||^2; assumption W2 holds where it is at most one


def stationarity(
    gradients: Iterable[Tensor | None], learning_rate: float, last: EstimationResult, step_size: float, steps: int
) -> Stationarity:
    """Theorem 1's quantities, from the model's gradients, the learning rate alpha and the last weight estimate."""
    squares = [g.detach().double().square().sum() for g in gradients if g is not None]
    if not squares:
        raise ValueError("the model has no gradients: call this between loss.backward() and optimizer.zero_grad()")
    norm = float(torch.stack([s.cpu() for s in squares]).sum().sqrt())
    change, params = 0.0, torch.where(last.start.isnan(), 0, last.start)
    for _ in range(steps):
        step = step_size * scaled_gradient(last.problem, params)
        change = max(change, float(step.abs().sum()))
        params = last.problem.project(params - step)
    bound = (learning_rate * norm) ** 2
    return Stationarity(norm, change, change / bound if bound > 0 else float("inf"))
