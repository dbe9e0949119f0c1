"""KMM: kernel mean matching (Huang et al. 2007), one weight per training point."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from torch import Tensor

from adiw.argument_checks import is_number
from adiw.classic.estimator import DensityRatioEstimator, check_points, check_samples
from adiw.classic.rbf_features import Array, chunks, widths_to_try
from adiw.divergences import MMDProblem
from adiw.matching.kernels import gaussian, squared_distances


class KMM(DensityRatioEstimator):
    """min_w w'Kw - 2k'w  subject to  0 <= w <= upper,  |mean(w) - 1| <= slack.

    More than ``block`` training points are split at random into blocks of nearly equal size. Each block is solved
    independently with the same constraints, so memory grows with the block and not with the data.

    Args:
        width: sigma of the kernel, or "median" (the median distance).
        upper: largest weight.
        slack: None for (sqrt(n) - 1) / sqrt(n) with n the size of a block.
        tolerance: upper bound on the relative distance of the objective from the optimum (the Frank-Wolfe gap).
        block: largest number of points solved together.
        max_steps: largest number of solver steps per block; warns if the gap is then above the tolerance.
        random_state: draws the blocks.
        verbose: 1 prints a line of progress every two seconds.

    Attributes:
        weights_: (n_train,) estimated ratio at the training points.
        objective_: w'Kw - 2k'w, summed over the blocks; ``gap_`` bounds its distance from the optimum.
        width_: the width used.

    >>> rng = np.random.default_rng(0)
    >>> X_train, X_test = rng.normal(0, 1, (500, 1)), rng.normal(1, 0.5, (100, 1))
    >>> fit = KMM(width=0.5).fit(X_train, X_test)
    >>> bool(abs((fit.weights_ * X_train[:, 0]).mean() - X_test.mean()) < 0.05)
    True
    """

    def __init__(
        self,
        width: float | Literal["median"] = "median",
        upper: float = 50.0,
        slack: float | None = None,
        tolerance: float = 5e-3,
        block: int = 10_000,
        max_steps: int = 2000,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.width, self.upper, self.slack, self.tolerance = width, upper, slack, tolerance
        self.block, self.max_steps, self.random_state, self.verbose = block, max_steps, random_state, verbose

    def fit(self, X_train: ArrayLike, y: ArrayLike | None = None, *, X_test: ArrayLike | None = None) -> KMM:
        """Estimate p_test / p_train from X_train (n, d) and X_test (m, d): call fit(X_train, X_test)."""
        train, test = check_samples(self, X_train, y, X_test)
        self.n_features_in_ = train.shape[1]
        _check_settings(self.upper, self.slack, self.width)
        (self.width_,) = widths_to_try(self.width, train, test, self.random_state)
        random = check_random_state(self.random_state)
        count = -(-len(train) // self.block)
        parts = np.array_split(random.permutation(len(train)), count)
        self.weights_, self.objective_, self.gap_ = np.zeros(len(train)), 0.0, 0.0
        for part in self._each(parts, "block"):
            weights, objective, gap = self._solve(train[part], test)
            self.weights_[part] = weights
            self.objective_ += objective
            self.gap_ += gap
        if self.gap_ > self.tolerance * abs(self.objective_):
            share = self.gap_ / abs(self.objective_)
            warnings.warn(
                f"KMM: the objective is within {share:.2g} of the optimum after {self.max_steps} steps, but "
                f"tolerance is {self.tolerance:g}: raise max_steps or tolerance",
                stacklevel=2,
            )
        self._X_train = train
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Weights of new points, (n,): the kernel-weighted mean of the training weights (Nadaraya-Watson).

        KMM itself only gives weights for the training points. Far from all of them, this is the nearest one's weight.
        """
        points = check_points(self, X)
        rows = max(1, 10**7 // len(self._X_train))
        train, weights = torch.from_numpy(self._X_train), torch.from_numpy(self.weights_)
        near = [
            torch.softmax(_exponents(torch.from_numpy(part), train, self.width_), dim=1) @ weights
            for part in chunks(points, rows)
        ]
        result: Array = torch.cat(near).numpy()
        return result

    def _solve(self, X_train: Array, X_test: Array) -> tuple[Array, float, float]:
        """(weights, objective, gap) of one block."""
        problem = build_problem(X_train, X_test, self.width_, self.upper, self.slack)
        weights, gap = minimise(problem, self.tolerance, self.max_steps, partial(self._each, what="step"))
        return weights.double().numpy(), float(problem.objective(weights)), gap


def _exponents(points: Tensor, train: Tensor, width: float) -> Tensor:
    """-||x_i - x_j||^2 / (2 width^2) plus a constant per row, (n, m), so that the largest of each row is zero."""
    distances = squared_distances(points, train).clamp_max(torch.finfo(points.dtype).max)
    return ((distances - distances.amin(1, keepdim=True)) / width / (-2 * width)).clamp_min(-1e300)


def build_problem(X_train: Array, X_test: Array, width: float, upper: float, slack: float | None) -> MMDProblem:
    """The problem of ``adiw.divergences.MMD`` on a block, in float32, since K takes the most memory."""
    train = torch.from_numpy(X_train).float()
    mean = torch.zeros(len(train))
    for part in chunks(X_test, max(1, 10**7 // len(train))):
        mean += gaussian(train, torch.from_numpy(part).float(), width).sum(1)
    root = len(train) ** 0.5
    band = torch.tensor([(root - 1) / root if slack is None else slack])
    K = gaussian(train, train, width)
    return MMDProblem(K, mean * (len(train) / len(X_test)), upper, band, torch.zeros(len(train), dtype=torch.long))


def minimise(
    problem: MMDProblem, tolerance: float, max_steps: int, progress: Callable[[Sequence[int]], Iterable[int]] = iter
) -> tuple[Tensor, float]:
    """The weights and a bound on objective - optimum, by accelerated projected gradient with restarts.

    The step 1 / L with L = 2 max_i sum_j K_ij is safe: the row sums of a non-negative K bound its eigenvalues.
    """
    x = y = problem.project(problem.initial())
    step, momentum, gap = 0.5 / problem.K.sum(1).max(), 1.0, float("inf")
    for count in progress(range(1, max_steps + 1)):
        new = problem.project(y - step * problem.gradient(y))
        if bool((y - new) @ (new - x) > 0):  # restart when the momentum points uphill
            momentum = 1.0
        following = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        y = new + (momentum - 1) / following * (new - x)
        x, momentum = new, following
        if count % 10 == 0 or count == max_steps:
            gradient = problem.gradient(x)
            gap = float(gradient.double() @ (x - _cheapest_vertex(problem, gradient)).double())
            objective = float(x.double() @ (gradient / 2 - problem.k).double())  # without another product with K
            if gap <= tolerance * abs(objective):
                break
    return x, max(gap, 0.0)


def _cheapest_vertex(problem: MMDProblem, gradient: Tensor) -> Tensor:
    """argmin_s gradient's over the feasible set: the upper bound at the entries with the lowest gradients."""
    n, slack = len(gradient), float(problem.slack[0])
    low, high = n * max(1 - slack, 0), n * min(1 + slack, problem.upper)
    order = gradient.argsort()
    useful = float((gradient < 0).sum()) * problem.upper
    total = min(max(useful, low), high)
    filled = (total - problem.upper * torch.arange(n)).clamp(0, problem.upper)
    return torch.empty_like(gradient).scatter_(0, order, filled.to(gradient.dtype))


def _check_settings(upper: float, slack: float | None, width: object) -> None:
    if not (is_number(upper) and upper >= 1):
        raise ValueError(f"upper must be at least 1, the mean weight, got {upper!r}")
    if slack is not None and not is_number(slack, least=0):
        raise ValueError(f"slack must be None or a number from 0, got {slack!r}")
    if isinstance(width, str) and width == "cv":
        raise ValueError('KMM has no held-out score: width must be a positive number or "median"')
