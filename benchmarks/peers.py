"""The classic estimators beside densratio, skada, adapt and the QP of cvxopt, where the true ratio is known.

p_train = N(0, 1), p_test = N(1, 0.5^2), 2000 and 200 points, width 0.5; medians over the seeds. The record
names packages that are not installed or that fail.

    python benchmarks/peers.py [--seeds 20] [--out benchmarks/results/peers.json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from adiw.classic import KLIEP, KMM, LSIF, ULSIF
from adiw.classic.rbf_features import rbf_features
from record import describe, first_line

WIDTH, UPPER = 0.5, 50.0
GAMMA = 1 / (2 * WIDTH**2)  # the same width where a package takes exp(-gamma d^2)
Weigh = Callable[[np.ndarray, np.ndarray], np.ndarray]


def densratio_fixed(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    from densratio import densratio

    return densratio(test, train, sigma_range=[WIDTH], lambda_range=[0.1], verbose=False).compute_density_ratio(train)


def densratio_search(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    from densratio import densratio

    return densratio(test, train, verbose=False).compute_density_ratio(train)


def adapt_kliep(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    from adapt import instance_based as theirs

    return theirs.KLIEP(kernel="rbf", gamma=GAMMA, verbose=0, random_state=0).fit_weights(train, test)


def adapt_ulsif(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    from adapt import instance_based as theirs

    return theirs.ULSIF(kernel="rbf", gamma=GAMMA, lambdas=0.1, verbose=0, random_state=0).fit_weights(train, test)


def skada_kliep(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    from skada import KLIEPReweightAdapter

    both = np.concatenate([train, test])
    domain = np.concatenate([np.ones(len(train)), -2 * np.ones(len(test))])  # sources are positive, targets negative
    adapter = KLIEPReweightAdapter(gamma=GAMMA, random_state=0).fit(both, sample_domain=domain)
    return adapter.compute_weights(both, sample_domain=domain)[: len(train)]


METHODS: dict[str, Weigh] = {
    "densratio uLSIF, width 0.5": densratio_fixed,
    "adiw ULSIF, width 0.5": lambda a, b: ULSIF(width=WIDTH, penalty=0.1).fit(a, b).weights_,
    "adiw KLIEP, width 0.5": lambda a, b: KLIEP(width=WIDTH).fit(a, b).weights_,
    "adiw LSIF, width 0.5": lambda a, b: LSIF(width=WIDTH).fit(a, b).weights_,
    "densratio uLSIF, searched": densratio_search,
    "adiw ULSIF, searched": lambda a, b: ULSIF().fit(a, b).weights_,
    "adiw KLIEP, searched": lambda a, b: KLIEP().fit(a, b).weights_,
    "skada KLIEP, width 0.5": skada_kliep,
    "adapt KLIEP, width 0.5": adapt_kliep,
    "adapt ULSIF, width 0.5": adapt_ulsif,
}
PACKAGES = ("densratio", "skada", "adapt")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/peers.json"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    missing = [name for name in PACKAGES if find_spec(name) is None]
    rows = compare({n: weigh for n, weigh in METHODS.items() if n.split()[0] not in missing}, arguments.seeds)
    kmm = compare_kmm() if find_spec("cvxopt") else None
    described = describe(*PACKAGES, "cvxopt", "scikit-learn", "scipy")
    content = {"estimators": rows, "kmm": kmm, "not_installed": missing, **described}
    arguments.out.write_text(json.dumps(content, indent=2) + "\n")
    for row in rows:
        print(row)
    print(kmm)
    print(f"not installed: {', '.join(missing) or 'nothing'}")


def compare(methods: dict[str, Weigh], seeds: int) -> list[dict[str, object]]:
    """Time all methods alternately, seed by seed. A method that fails is skipped from then on."""
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    errors: dict[str, list[float]] = {name: [] for name in methods}
    failed: dict[str, str] = {}
    for seed in range(-1, seeds):  # the first round is a warm-up and is not counted
        train, test, truth = sample(seed + 1)
        for name in [name for name in methods if name not in failed]:
            try:
                elapsed, weights = _timed(methods[name], train, test)
            except Exception as error:
                failed[name] = first_line(error)
                continue
            if seed >= 0:
                seconds[name].append(elapsed)
                errors[name].append(float(np.mean((weights / weights.mean() - truth / truth.mean()) ** 2)))
    return [
        {"name": name, "error": failed[name]}
        if name in failed
        else {
            "name": name,
            "median_seconds": statistics.median(seconds[name]),
            "median_error": statistics.median(errors[name]),
        }
        for name in methods
    ]


def _timed(weigh: Weigh, train: np.ndarray, test: np.ndarray) -> tuple[float, np.ndarray]:
    start = time.perf_counter()
    weights = weigh(train, test)
    return time.perf_counter() - start, weights


def compare_kmm() -> dict[str, float]:
    """Objective and time of KMM at n = 2000, and of cvxopt at its default tolerances."""
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
    from cvxopt import matrix, solvers

    n = len(train)
    K = rbf_features(train, train, WIDTH)
    k = rbf_features(train, test, WIDTH).sum(1) * n / len(test)
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
