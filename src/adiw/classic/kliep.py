"""KLIEP: the density ratio that minimises the Kullback-Leibler divergence (Sugiyama et al. 2008)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from adiw.classic.estimator import KernelModel, check_samples
from adiw.classic.rbf_features import Array, Width, choose_centres, mean_features, rbf_features
from adiw.classic.search import (
    LEAST,
    PENALTIES,
    TYPICAL_PENALTY,
    Penalty,
    centres_outside,
    mean_settings,
    penalties_to_try,
    search_widths,
)
from adiw.divergences import KLProblem

TINY = np.finfo(float).tiny
MOST_STEPS = 100


class KLIEP(KernelModel):
    """w(x) = sum_l coef_l psi_l(x) that maximises the likelihood of the test sample, with mean one over training.

    coef >= 0 minimises mean_train w - mean_test log w + penalty |coef|^2 / 2, and is then divided by the mean of w. A
    penalty of zero is the plain method; a positive one spreads the weight over neighbouring centres.

    Args:
        width: sigma of the kernel, "median" (the median distance), or "cv" (by held-out folds, with a preference
            for a typical width).
        penalty: lambda of the squared penalty from 0, or "cv" (by held-out folds, with a preference for 0.1, jointly
            with the width).
        centres: largest number of kernel centres, drawn from the test points.
        folds: folds of the test sample, for "cv".
        tolerance: upper bound on the distance of the objective from the optimum.
        random_state: draws the centres and the folds.
        verbose: 1 prints a line of progress every two seconds.

    Attributes:
        weights_: (n_train,) estimated ratio at the training points, mean one.
        coef_, centres_, width_, penalty_: the fitted model.
        objective_: -mean log w over the test sample.

    >>> rng = np.random.default_rng(0)
    >>> fit = KLIEP(width=0.5).fit(rng.normal(0, 1, (500, 1)), rng.normal(1, 0.5, (100, 1)))
    >>> bool(fit.predict([[1.0]])[0] > 5 * fit.predict([[-1.0]])[0]), round(float(fit.weights_.mean()), 6)
    (True, 1.0)
    """

    def __init__(
        self,
        width: Width = "cv",
        penalty: Penalty = "cv",
        centres: int = 100,
        folds: int = 3,
        tolerance: float = 1e-8,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.width, self.penalty, self.centres, self.folds = width, penalty, centres, folds
        self.tolerance, self.random_state, self.verbose = tolerance, random_state, verbose

    def fit(self, X_train: ArrayLike, y: ArrayLike | None = None, *, X_test: ArrayLike | None = None) -> KLIEP:
        """Estimate p_test / p_train from X_train (n, d) and X_test (m, d): call fit(X_train, X_test)."""
        train, test = check_samples(self, X_train, y, X_test)
        self.n_features_in_ = train.shape[1]
        random = check_random_state(self.random_state)
        rows = choose_centres(test, self.centres, random)
        self.centres_ = test[rows]
        widths = search_widths(self.width, train, test, self.random_state)
        penalties = penalties_to_try(self.penalty, PENALTIES[::3], zero=True)
        fold = random.permutation(np.arange(len(test)) % self.folds)

        def features(width: float) -> tuple[Array, Array]:
            return rbf_features(test, self.centres_, width), mean_features(train, self.centres_, width)

        self.width_, self.penalty_ = widths[0], penalties[0] if len(penalties) == 1 else TYPICAL_PENALTY
        if len(widths) * len(penalties) > 1 and len(test) > 1:
            each = self._each(widths, "width")
            scores = [_held_out_likelihood(*features(width), penalties, fold, fold[rows]) for width in each]
            self.width_, self.penalty_ = mean_settings(np.array(scores), widths, penalties)
        problem = _problem(*features(self.width_))
        self.coef_ = maximise_likelihood(problem, self.penalty_, self.tolerance)
        self.objective_ = float(problem.objective(torch.from_numpy(self.coef_)))
        self.weights_ = self.predict(train)
        return self


def maximise_likelihood(problem: KLProblem, penalty: float, tolerance: float, warn: bool = True) -> Array:
    """argmin of psi_bar'beta - mean_j log psi_j'beta + penalty |beta|^2 / 2 over beta >= 0, divided by psi_bar'beta.

    A primal-dual interior-point method (Nocedal and Wright 2006, chapter 19): Newton steps towards points at which
    each coefficient times its dual, the slope, is a small share of the distance to the optimum.
    """
    psi, mean, share = (t.numpy() for t in (problem.psi_val, problem.psi_bar, problem.share))
    bar = np.maximum(mean, 1e-12 * mean.max() + TINY)  # bounds the coefficient of a centre far from training points
    scale = np.sqrt(bar**2 + penalty)  # theta = scale * beta is at most sqrt(2) at the optimum
    phi, cost, ridge = psi / scale, bar / scale, penalty / scale**2
    theta = np.full(len(bar), 1 / cost.sum())
    reached = phi @ theta > 1e-200  # the likelihood of the other test points is zero for all coefficients
    if not (reached.any() and mean.max() > 0):
        raise ValueError("all kernels between training and test points are zero: use a larger width")
    phi, share = phi[reached], share[reached] / share[reached].sum()
    dual = np.full(len(bar), 0.03)
    for _ in range(MOST_STEPS):
        density = phi @ theta
        slope = cost + ridge * theta - phi.T @ (share / density)
        distance = slope @ theta + np.sqrt(2) * np.maximum(-slope, 0).sum()  # an upper bound, by convexity
        if distance <= tolerance:
            break
        rows = phi * (np.sqrt(share) / density)[:, None]
        curvature = rows.T @ rows
        curvature.flat[:: len(bar) + 1] += ridge + dual / theta
        target = 0.04 * distance / len(theta)
        step = np.linalg.solve(curvature, target / theta - slope)
        dual_step = (target - dual * step) / theta - dual
        length = min(1.0, 0.99 / max((-step / theta).max(), (-dual_step / dual).max(), TINY))
        theta, dual = theta + length * step, dual + length * dual_step
    else:
        if warn:
            warnings.warn(
                f"KLIEP: the objective is not within {tolerance:g} of the optimum after {MOST_STEPS} Newton steps",
                stacklevel=2,
            )
    beta: Array = theta / scale
    beta /= mean @ beta
    return beta


def _problem(psi_test: Array, psi_bar: Array) -> KLProblem:
    """The problem of ``adiw.divergences.KL`` for one group; the training features, which are not used, are empty."""
    test, bar = torch.from_numpy(psi_test), torch.from_numpy(psi_bar)
    share = torch.full((len(test),), 1 / len(test), dtype=torch.float64)
    centre = torch.zeros(len(bar), dtype=torch.long)
    return KLProblem(test, bar, test.new_empty(0, len(bar)), share, centre[:0], centre, 1, "euclidean")


def _held_out_likelihood(
    psi_test: Array,
    psi_bar: Array,
    penalties: Sequence[float],
    fold: NDArray[np.intp],
    fold_of_centre: NDArray[np.intp],
) -> Array:
    """The sum of log w over held-out test points, for each penalty: (penalties,)."""
    total = np.zeros(len(penalties))
    for k in np.unique(fold):
        used = centres_outside(k, fold_of_centre)
        problem = _problem(psi_test[fold != k][:, used], psi_bar[used])
        for at, penalty in enumerate(penalties):
            beta = maximise_likelihood(problem, penalty, 1e-3, warn=False)
            total[at] += np.log(np.maximum(psi_test[fold == k][:, used] @ beta, LEAST)).sum()
    return total
