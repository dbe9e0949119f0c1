"""The classic estimators beside densratio and cvxopt's QP, in one run, on a problem whose true ratio is known.

p_train = N(0, 1), p_test = N(1, 0.5^2), 2000 and 200 points, width 0.5; medians over the seeds.

    python benchmarks/peers.py [--seeds 20] [--out benchmarks/results/peers.json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from cvxopt import matrix, solvers
from densratio import densratio

from adiw.classic import KLIEP, KMM, LSIF, ULSIF
from adiw.classic.bumps import bumps
from machine import describe

WIDTH, UPPER = 0.5, 50.0
Weigh = Callable[[np.ndarray, np.ndarray], np.ndarray]


def densratio_fixed(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    return densratio(test, train, sigma_range=[WIDTH], lambda_range=[0.1], verbose=False).compute_density_ratio(train)


def densratio_search(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    return densratio(test, train, verbose=False).compute_density_ratio(train)


METHODS: dict[str, Weigh] = {
    "densratio uLSIF, width 0.5": densratio_fixed,
    "adiw ULSIF, width 0.5": lambda a, b: ULSIF(width=WIDTH, penalty=0.1).fit(a, b).weights_,
    "adiw KLIEP, width 0.5": lambda a, b: KLIEP(width=WIDTH).fit(a, b).weights_,
    "adiw LSIF, width 0.5": lambda a, b: LSIF(width=WIDTH).fit(a, b).weights_,
    "densratio uLSIF, searched": densratio_search,
    "adiw ULSIF, searched": lambda a, b: ULSIF().fit(a, b).weights_,
    "adiw KLIEP, searched": lambda a, b: KLIEP().fit(a, b).weights_,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/peers.json"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = compare(arguments.seeds)
    kmm = compare_kmm()
    described = describe("densratio", "cvxopt", "scikit-learn", "scipy")
    arguments.out.write_text(json.dumps({"estimators": rows, "kmm": kmm, **described}, indent=2) + "\n")
    for row in rows:
        print(f"{row['name']:28s} {1000 * row['median_seconds']:8.1f} ms   squared error {row['median_error']:.4f}")
    print(kmm)


def compare(seeds: int) -> list[dict[str, object]]:
    """Every method on every seed, one after the other, so that all see the same machine."""
    seconds: dict[str, list[float]] = {name: [] for name in METHODS}
    errors: dict[str, list[float]] = {name: [] for name in METHODS}
    for seed in range(-1, seeds):  # the first round warms up and is not counted
        train, test, truth = sample(seed + 1)
        for name, weigh in METHODS.items():
            start = time.perf_counter()
            weights = weigh(train, test)
            elapsed = time.perf_counter() - start
            if seed >= 0:
                seconds[name].append(elapsed)
                errors[name].append(float(np.mean((weights / weights.mean() - truth / truth.mean()) ** 2)))
    return [
        {"name": n, "median_seconds": statistics.median(seconds[n]), "median_error": statistics.median(errors[n])}
        for n in METHODS
    ]


def compare_kmm() -> dict[str, float]:
    """KMM at n = 2000 against cvxopt at its default tolerances: objective and time of both."""
    train, test, _ = sample(1)
    start = time.perf_counter()
    fit = KMM(width=WIDTH, upper=UPPER).fit(train, test)
    ours = time.perf_counter() - start
    start = time.perf_counter()
    theirs = cvxopt_objective(train, test)
    elapsed = time.perf_counter() - start
    return {
        "adiw_seconds": ours,
        "cvxopt_seconds": elapsed,
        "times_faster": elapsed / ours,
        "adiw_objective": fit.objective_,
        "cvxopt_objective": theirs,
        "adiw_above_cvxopt": (fit.objective_ - theirs) / abs(theirs),
    }


def cvxopt_objective(train: np.ndarray, test: np.ndarray) -> float:
    """min w'Kw - 2k'w over 0 <= w <= upper and the band on the mean, by cvxopt: the optimal value."""
    n = len(train)
    K = bumps(train, train, WIDTH)
    k = bumps(train, test, WIDTH).sum(1) * n / len(test)
    slack = (n**0.5 - 1) / n**0.5
    G = np.concatenate([np.eye(n), -np.eye(n), np.ones((1, n)), -np.ones((1, n))])
    h = np.concatenate([np.full(n, UPPER), np.zeros(n), [n * (1 + slack), n * (slack - 1)]])
    solvers.options["show_progress"] = False
    w = np.array(solvers.qp(matrix(2 * K), matrix(-2 * k), matrix(G), matrix(h))["x"])[:, 0]
    return float(w @ K @ w - 2 * k @ w)


def sample(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(training points, test points, true ratio at the training points)."""
    random = np.random.default_rng(seed)
    train, test = random.normal(0, 1, (2000, 1)), random.normal(1, 0.5, (200, 1))
    x = train[:, 0]
    return train, test, 2 * np.exp(x**2 / 2 - 2 * (x - 1) ** 2)


if __name__ == "__main__":
    main()
