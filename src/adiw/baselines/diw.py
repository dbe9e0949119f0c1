"""Dynamic importance weighting (DIW): kernel mean matching of the losses, solved to the optimum for every batch."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from adiw.argument_checks import is_positive
from adiw.baselines import qp_solvers
from adiw.baselines.baseline import Baseline
from adiw.baselines.qp_solvers import resolve_solver
from adiw.divergences import MMD, MMDProblem
from adiw.matching.batches import MatchedBatches, match
from adiw.reweighting.loss_shapes import Criterion
from adiw.reweighting.step import Step
from adiw.reweighting.transforms import TransformedBatch
from adiw.reweighting.validation_schedule import ValidationBatch

RIDGE = 1e-5  # added to the diagonal of K


class DIW(Baseline):
    """min_w 1/2 w'Kw - k'w  s.t.  0 <= w <= 50,  |mean(w) - 1| <= (sqrt(n) - 1) / sqrt(n)   (Fang et al. 2020).

    z is the loss of each sample in a separate pass in evaluation mode, for the training batch and for a validation
    batch. K and k are as in ``adiw.divergences.MMD``, with 1e-5 on the diagonal of K. The loss is mean(w * loss);
    the public code has the sum, but the paper compares all methods at one learning rate.

    Args as for ``adiw.ADIW``. Every call needs ``inputs`` (with ``forward``, the whole batch).
        width: sigma of the Gaussian kernel (the paper: 0.01 for label noise, 0.1 for class-prior shift), or
            "quantile" for the public code's kernel exp(-gamma d^2) with gamma = the 1% quantile of the distances
            between the batch's training losses.
        solver: "gpu" (interior point on the model's device, no other package), or "cvxopt" or "osqp" on the CPU.
        warmup_steps: first steps, in which all weights are one; by default one epoch, as in the public code.

    >>> model = nn.Linear(2, 3)
    >>> val_set = torch.utils.data.TensorDataset(torch.randn(8, 2), torch.randint(3, (8,)))
    >>> reweight = DIW(model, nn.CrossEntropyLoss(reduction="none"), val_set, num_train=100)
    >>> x, y, index = torch.randn(4, 2), torch.tensor([0, 1, 2, 0]), torch.tensor([5, 17, 3, 99])
    >>> reweight(model(x), y, index, inputs=x).backward()
    >>> reweight.weights.shape
    torch.Size([100])
    """

    runs_batch = "DIW takes the losses of the training batch from a separate pass in evaluation mode"
    bound = MMD().upper

    def __init__(
        self,
        model: nn.Module,
        criterion: Criterion,
        val_set: Any,
        num_train: int,
        *,
        width: float | Literal["quantile"] = 0.01,
        solver: Literal["gpu", "cvxopt", "osqp"] = "gpu",
        warmup_steps: int | None = None,
        **options: Any,
    ) -> None:
        if not is_positive(width) and not (isinstance(width, str) and width == "quantile"):
            raise ValueError(f'width must be a positive number (sigma) or "quantile", got {width!r}')
        options |= {"settings": f"width={width!r}, solver={solver!r}", "warmup_steps": warmup_steps}
        super().__init__(model, criterion, val_set, num_train, **options)
        self.width, self.solve = width, resolve_solver(solver)
        self.host_work = None if solver == "gpu" else f"DIW's solver {solver} works on the host"

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile an iteration of the solver "gpu", if it is used, with ``torch.compile(*args, **kwargs)``."""
        if self.host_work is None:
            advance = torch.compile(qp_solvers.advance, *args, **kwargs)
            self.solve = partial(qp_solvers.solve, advance=advance)

    def _batch_weights(self, step: Step, losses: Tensor, outputs: Any, batch: Any) -> Tensor:
        evaluate = partial(self.evaluator.evaluate, outputs=outputs, dtype=self.weight_state.weight_slots.dtype)
        with torch.no_grad():
            train = TransformedBatch(*step.processes.gather(evaluate(batch), [float("nan"), -1]))
            return self.estimate(step, train, self.val_schedule.batch_for_step(evaluate, step.processes))

    def estimate(self, step: Step, train: TransformedBatch, val: ValidationBatch) -> Tensor:
        """Estimate and store the weights, see ``adiw.ADIW.estimate``: (g,), zero where z is not finite."""
        batches = match(train.z.double(), val.z.double())
        solution = self.solve(kernel_mean_matching(batches, self.width))
        return self.weight_state.store(step, torch.where(batches.included_train, solution, 0), step.finite)


def kernel_mean_matching(batches: MatchedBatches, width: float | Literal["quantile"]) -> MMDProblem:
    """DIW's quadratic program for two matched batches, with the ridge."""
    if width == "quantile":
        # exp(-gamma d^2) is the kernel of width one between values scaled by sqrt(2 gamma).
        scale = (2 * quantile_gamma(batches)).sqrt()
        batches, width = replace(batches, z_train=batches.z_train * scale, z_val=batches.z_val * scale), 1.0
    problem = MMD(width=width).problem(batches)
    return replace(problem, K=problem.K + RIDGE * torch.eye(len(problem.k), device=problem.k.device))


def quantile_gamma(batches: MatchedBatches, share: float = 0.01) -> Tensor:
    """The quantile of the distances between different training samples: a scalar, zero for fewer than two samples.

    >>> quantile_gamma(match(torch.tensor([[0.0], [1.0], [5.0]]), torch.zeros(1, 1)), share=0.5)
    tensor(4.)
    """
    first, second = torch.triu_indices(
        len(batches.z_train), len(batches.z_train), offset=1, device=batches.z_train.device
    )
    both = batches.included_train[first] & batches.included_train[second]
    distance = (batches.z_train[first, 0] - batches.z_train[second, 0]).abs()
    known = torch.cat([torch.where(both, distance, torch.nan), distance.new_full((1,), torch.nan)])
    return known.nanquantile(share).nan_to_num(0)
