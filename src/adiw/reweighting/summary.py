"""Statistics of the weights for logs, of all samples and by group, and the quantities of the convergence theorem."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from adiw.matching.weight_limits import effective_sample_size
from adiw.reweighting.diagnostics.alarms import Alarm
from adiw.reweighting.divergence_estimator import EstimationResult, scaled_gradient
from adiw.reweighting.sample_record import SampleRecord


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


Row = dict[str, Any]
Groups = tuple[Tensor, list[str]]  # the number of each sample's group (n,), and the names of the groups


def rows_of(weights: Tensor, groups: Tensor, names: Sequence[str], right: Tensor, right_groups: Tensor) -> list[Row]:
    """A row for each group that has samples.

    Args:
        weights: (n,) of the training samples.
        groups: (n,) the number of each sample's group, -1 for none.
        names: of the groups.
        right: (m,) which samples are predicted correctly, of the samples that the accuracy is measured on.
        right_groups: (m,) the groups of these.

    >>> import torch
    >>> right, groups = torch.tensor([True, False, True]), torch.tensor([0, 0, 1])
    >>> rows_of(torch.tensor([2.0, 0.0, 1.0]), groups, ["a", "b"], right, groups)[0]
    {'name': 'a', 'n': 2, 'accuracy': 50.0, 'mean_weight': 1.0, 'ess': 1.0}
    """
    found = []
    for number, name in enumerate(names):
        own = groups == number
        if not bool(own.any()):
            continue
        right_here = right[right_groups == number].double()
        accuracy = 100 * float(right_here.mean()) if len(right_here) else None
        mean, ess = float(weights[own].double().mean()), float(effective_sample_size(weights[own].double()))
        found.append({"name": str(name), "n": int(own.sum()), "accuracy": accuracy, "mean_weight": mean, "ess": ess})
    return found


def group_rows(weights: Tensor, record: SampleRecord, groups: Tensor, names: Sequence[str]) -> dict[str, list[Row]]:
    """The rows of the classes and of the groups (n,) in a loop; accuracies are those of the given labels."""
    labels, predicted = record.labels[:-1].cpu(), record.predicted[:-1].cpu()
    known = labels >= 0
    right = (labels == predicted)[known]
    classes = [str(number) for number in range(int(labels.max()) + 1)]
    return {
        "classes": rows_of(weights, labels, classes, right, labels[known]),
        "groups": rows_of(weights, groups, names, right, groups[known]),
    }
