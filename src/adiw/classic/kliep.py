"""KLIEP: the density ratio that minimises the Kullback-Leibler divergence (Sugiyama et al. 2008)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from adiw.classic import non_negative_qp
from adiw.classic.estimator import KernelModel, check_samples
from adiw.classic.rbf_features import Array, Width, choose_centres, mean_features, rbf_features
from adiw.classic.search import mean_settings, search_widths
from adiw.divergences import KLProblem

TINY = np.finfo(float).tiny


class KLIEP(KernelModel):
    """w(x) = sum_l coef_l psi_l(x) that maximises the likelihood of the test sample, with mean one over training.

    Args:
        width: sigma of the kernel, "median" (the median distance), or "cv" (by held-out folds, with a preference
            for a typical width).
        centres: largest number of kernel centres, drawn from the test points.
        folds: folds of the test sample, for "cv".
        tolerance: upper bound on the distance of the objective from the optimum.
        random_state: draws the centres and the folds.
        verbose: 1 prints a line of progress every two seconds.

    Attributes:
        weights_: (n_train,) estimated ratio at the training points, mean one.
        coef_, centres_, width_: the fitted model.
        objective_: -mean log w over the test sample.

    >>> rng = np.random.default_rng(0)
    >>> fit = KLIEP(width=0.5).fit(rng.normal(0, 1, (500, 1)), rng.normal(1, 0.5, (100, 1)))
    >>> bool(fit.predict([[1.0]])[0] > 5 * fit.predict([[-1.0]])[0]), round(float(fit.weights_.mean()), 6)
    (True, 1.0)
    """

    def __init__(
        self,
        width: Width = "cv",
        centres: int = 100,
        folds: int = 5,
        tolerance: float = 1e-8,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.width, self.centres, self.folds = width, centres, folds
        self.tolerance, self.random_state, self.verbose = tolerance, random_state, verbose

    def fit(self, X_train: ArrayLike, y: ArrayLike | None = None, *, X_test: ArrayLike | None = None) -> KLIEP:
        """Estimate p_test / p_train from X_train (n, d) and X_test (m, d): call fit(X_train, X_test)."""
        train, test = check_samples(self, X_train, y, X_test)
        self.n_features_in_ = train.shape[1]
        random = check_random_state(self.random_state)
        self.centres_ = choose_centres(test, self.centres, random)
        widths = search_widths(self.width, train, test, self.random_state)
        fold = random.permutation(np.arange(len(test)) % self.folds)

        def features(width: float) -> tuple[Array, Array]:
            return rbf_features(test, self.centres_, width), mean_features(train, self.centres_, width)

        searched = self._each(widths if len(widths) > 1 else [], "width")
        scores = [_held_out_likelihood(*features(width), fold) for width in searched] or [0.0]
        self.width_, _ = mean_settings(np.array(scores)[:, None], widths)
        problem = _problem(*features(self.width_))
        self.coef_ = maximise_likelihood(problem, self.tolerance)
        self.objective_ = float(problem.objective(torch.from_numpy(self.coef_)))
        self.weights_ = self.predict(train)
        return self


def maximise_likelihood(problem: KLProblem, tolerance: float, start: Array | None = None, warn: bool = True) -> Array:
    """argmin of KLIEP's objective over beta >= 0, beta'psi_bar = 1, by Newton's method: (b,).

    In the shares theta = beta psi_bar the objective is -mean_j log phi_j'theta with phi = psi / psi_bar. Adding
    sum(theta) replaces the constraint: the optimum over theta >= 0 then sums to one, and each Newton step is a
    non-negative quadratic program.
    """
    psi, mean, share = (t.numpy() for t in (problem.psi_val, problem.psi_bar, problem.share))
    bar = np.maximum(mean, 1e-12 * mean.max() + TINY)  # bounds the coefficient of a centre far from training points
    uniform = np.full(len(bar), 1 / len(bar))
    phi = psi / bar
    reached = phi @ uniform > 1e-200  # the likelihood of the other test points is zero for all coefficients
    if not (reached.any() and mean.max() > 0):
        raise ValueError("all kernels between training and test points are zero: use a larger width")
    phi, share = phi[reached], share[reached] / share[reached].sum()
    theta: Array = uniform if start is None else 0.9 * start * bar + 0.1 * uniform
    for _ in range(100):
        density = np.maximum(phi @ theta, TINY)
        gradient = 1 - phi.T @ (share / density)
        if (-gradient).max() + gradient @ theta <= tolerance:  # bounds value(theta) - optimum, by convexity
            break
        rows = phi * (np.sqrt(share) / density)[:, None]
        curvature = rows.T @ rows
        target = non_negative_qp.solve(curvature, curvature @ theta - gradient, start=theta)
        theta = _line_search(theta, target - theta, gradient, phi, share)
    else:
        if warn:
            warnings.warn(
                f"KLIEP: the objective is not within {tolerance:g} of the optimum after 100 Newton steps",
                stacklevel=2,
            )
    beta: Array = theta / bar
    beta /= mean @ beta
    return beta


def _line_search(theta: Array, step: Array, gradient: Array, phi: Array, share: Array) -> Array:
    """theta + length * step, with the length halved from one until the objective falls enough (Armijo's rule)."""

    def value(theta: Array) -> float:
        return float(theta.sum() - share @ np.log(np.maximum(phi @ theta, TINY)))

    length, slope, here = 1.0, gradient @ step, value(theta)
    allowed = here + 1e-13 * max(1.0, abs(here))  # so that rounding does not shorten the last steps
    while value(theta + length * step) > allowed + 1e-4 * length * slope and length > 1e-12:
        length /= 2
    return theta + length * step


def _problem(psi_test: Array, psi_bar: Array) -> KLProblem:
    """The problem of ``adiw.divergences.KL`` for one group; the training features, which are not used, are empty."""
    test, bar = torch.from_numpy(psi_test), torch.from_numpy(psi_bar)
    share = torch.full((len(test),), 1 / len(test), dtype=torch.float64)
    centre = torch.zeros(len(bar), dtype=torch.long)
    return KLProblem(test, bar, test.new_empty(0, len(bar)), share, centre[:0], centre, 1, "euclidean")


def _held_out_likelihood(psi_test: Array, psi_bar: Array, fold: Array) -> float:
    """The sum of log w over held-out test points; low for widths far too small, for which no optimum is reached."""
    total, beta = 0.0, None
    for k in np.unique(fold):
        beta = maximise_likelihood(_problem(psi_test[fold != k], psi_bar), 1e-3, start=beta, warn=False)
        total += float(np.log(np.maximum(psi_test[fold == k] @ beta, TINY)).sum())
    return total
