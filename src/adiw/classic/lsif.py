"""LSIF: the density ratio that minimises the squared distance, with an l1 penalty (Kanamori et al. 2009)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from adiw.argument_checks import is_number
from adiw.classic import non_negative_qp
from adiw.classic.estimator import KernelModel, check_samples
from adiw.classic.rbf_features import Array, Width, choose_centres, rbf_features, sum_outer_products, widths_to_try
from adiw.divergences import SquaredProblem


class LSIF(KernelModel):
    """w(x) = sum_l coef_l psi_l(x) with min 1/2 b'Hb - h'b + penalty 1'b over b >= 0, solved exactly.

    Args:
        width: sigma of the kernel, "median" (the median distance), or "cv" (the smallest held-out objective).
        penalty: lambda, or "cv".
        centres: largest number of kernel centres, drawn from the test points.
        folds: folds of both samples, for "cv".
        random_state: draws the centres and the folds.
        verbose: 1 prints a line of progress every two seconds.

    Attributes:
        weights_: (n_train,) estimated ratio at the training points; their mean is about one, but not constrained.
        coef_, centres_, width_, penalty_: the fitted model.
        objective_: 1/2 b'Hb - h'b + penalty 1'b.

    >>> rng = np.random.default_rng(0)
    >>> fit = LSIF(width=0.5).fit(rng.normal(0, 1, (500, 1)), rng.normal(1, 0.5, (100, 1)))
    >>> bool(fit.predict([[1.0]])[0] > 5 * fit.predict([[-1.0]])[0])
    True
    """

    def __init__(
        self,
        width: Width = "cv",
        penalty: float | Literal["cv"] = 0.01,
        centres: int = 100,
        folds: int = 5,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.width, self.penalty, self.centres = width, penalty, centres
        self.folds, self.random_state, self.verbose = folds, random_state, verbose

    def fit(self, X_train: ArrayLike, y: ArrayLike | None = None, *, X_test: ArrayLike | None = None) -> LSIF:
        """Estimate p_test / p_train from X_train (n, d) and X_test (m, d): call fit(X_train, X_test)."""
        train, test = check_samples(self, X_train, y, X_test)
        self.n_features_in_ = train.shape[1]
        random = check_random_state(self.random_state)
        self.centres_ = test[choose_centres(test, self.centres, random)]
        widths = widths_to_try(self.width, train, test, self.random_state)
        penalties = _penalties_to_try(self.penalty)
        folds = min(self.folds, len(train), len(test)) if len(widths) * len(penalties) > 1 else 1
        fold_train = random.permutation(np.arange(len(train)) % folds)
        fold_test = random.permutation(np.arange(len(test)) % folds)
        best = (np.inf, widths[0], penalties[0])
        for width in self._each(widths if folds > 1 else [], "width"):
            sums = [_sums(train[fold_train == k], test[fold_test == k], self.centres_, width) for k in range(folds)]
            best = min([best, *((_held_out(sums, penalty), width, penalty) for penalty in penalties)])
        _, self.width_, self.penalty_ = best
        H, h = _means([_sums(train, test, self.centres_, self.width_)])
        self.coef_ = non_negative_qp.solve(H, h - self.penalty_)
        self.objective_ = float(problem(H, h, self.penalty_).objective(torch.from_numpy(self.coef_)))
        self.weights_ = self.predict(train)
        return self


Sums = tuple[Array, Array, int, int]


def problem(H: Array, h: Array, penalty: float) -> SquaredProblem:
    """The problem of ``adiw.divergences.Squared``; the training features, which are not used, are empty."""
    value, vector = np.linalg.eigh(H)
    root = torch.from_numpy(np.sqrt(np.maximum(value, 0))[:, None] * vector.T)
    linear = torch.from_numpy(h)
    return SquaredProblem(root, linear, torch.full_like(linear, penalty), root[:0], torch.zeros_like(linear))


def _penalties_to_try(penalty: float | str) -> list[float]:
    if isinstance(penalty, str) and penalty == "cv":
        return [1e-3, 3e-3, 1e-2, 3e-2, 1e-1]
    if not is_number(penalty, least=0):
        raise ValueError(f'penalty must be a number from 0 or "cv", got {penalty!r}')
    return [float(penalty)]


def _sums(X_train: Array, X_test: Array, centres: Array, width: float) -> Sums:
    """n H, m h, n and m of a part of the data."""
    products = sum_outer_products(X_train, centres, width)
    return products, rbf_features(X_test, centres, width).sum(0), len(X_train), len(X_test)


def _means(parts: list[Sums]) -> tuple[Array, Array]:
    """H and h over several parts."""
    products, tests, n, m = (sum(column[1:], column[0]) for column in zip(*parts, strict=True))
    return products / n, tests / m


def _held_out(parts: list[Sums], penalty: float) -> float:
    """The held-out objective without penalty, averaged over the folds."""
    total = 0.0
    for k, part in enumerate(parts):
        H, h = _means([*parts[:k], *parts[k + 1 :]])
        beta = non_negative_qp.solve(H, h - penalty)
        H_out, h_out = _means([part])
        total += float(beta @ H_out @ beta / 2 - h_out @ beta)
    return total / len(parts)
