"""The classic estimators beside densratio, skada, adapt and the QP of cvxopt, where the true ratio is known.

p_train = N(0, I) and p_test = N(mean, sd^2 I) in one and in five dimensions (``PROBLEMS``), 2000 and 200 points;
medians over the seeds. The record names packages that are not installed or that fail.

    python benchmarks/peers.py [--seeds 20] [--searched] [--out benchmarks/results/peers.json]

``--searched`` compares only the searches, on ``FURTHER`` problems (peers-searched.json).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from adiw.classic import KLIEP, KMM, LSIF, RULSIF, ULSIF, ClassifierRatio
from adiw.classic.rbf_features import rbf_features
from record import describe, first_line

UPPER, PENALTY, ALPHA = 50.0, 0.1, 0.1
N_TRAIN, N_TEST = 2000, 200
Weigh = Callable[[np.ndarray, np.ndarray, float], np.ndarray]  # (training points, test points, width) -> weights


@dataclass(frozen=True)
class Problem:
    """Two Gaussians, and the width that all estimators with a fixed width get."""

    dim: int
    mean: float  # of the test distribution, in each column
    sd: float
    width: float

    @property
    def name(self) -> str:
        return f"{self.dim}d, N({self.mean:g}, {self.sd:g}²)"


# In one dimension the width is 0.5; in five it is about the typical distance of two test points.
PROBLEMS = (
    Problem(1, 1.0, 0.5, 0.5),
    Problem(1, 0.5, 0.8, 0.5),
    Problem(5, 0.3, 1.0, 2.5),
    Problem(5, 0.5, 0.8, 2.5),
)
# On these no setting of a search was chosen.
FURTHER = (
    *(Problem(1, mean, sd, 0.5) for mean, sd in ((0.2, 0.9), (0.9, 0.7), (0.0, 0.5), (-0.7, 0.6))),
    *(Problem(5, mean, sd, 2.5) for mean, sd in ((0.25, 0.85), (0.1, 0.75))),
)


def gamma(width: float) -> float:
    """The same width where a package takes exp(-gamma d^2)."""
    return 1 / (2 * width**2)


def of_densratio(method: str, searched: bool = False) -> Weigh:
    def weigh(train: np.ndarray, test: np.ndarray, width: float) -> np.ndarray:
        from densratio import densratio

        fixed = {} if searched else {"sigma_range": [width], "lambda_range": [PENALTY]}
        return densratio(test, train, method, alpha=ALPHA, verbose=False, **fixed).compute_density_ratio(train)

    return weigh


def of_adapt(name: str, **settings: float) -> Weigh:
    def weigh(train: np.ndarray, test: np.ndarray, width: float) -> np.ndarray:
        from adapt import instance_based as theirs

        kind = getattr(theirs, name)
        return kind(kernel="rbf", gamma=gamma(width), verbose=0, random_state=0, **settings).fit_weights(train, test)

    return weigh


def of_skada(name: str) -> Weigh:
    def weigh(train: np.ndarray, test: np.ndarray, width: float) -> np.ndarray:
        import skada

        chosen = {"gamma": gamma(width), "random_state": 0} if name == "KLIEPReweightAdapter" else {}
        both = np.concatenate([train, test])
        domain = np.concatenate([np.ones(len(train)), -2 * np.ones(len(test))])  # sources positive, targets negative
        adapter = getattr(skada, name)(**chosen).fit(both, sample_domain=domain)
        return adapter.compute_weights(both, sample_domain=domain)[: len(train)]

    return weigh


# Estimators of the same kind stand together. "searched": width and penalty are chosen by the estimator itself.
METHODS: dict[str, Weigh] = {
    "densratio uLSIF": of_densratio("uLSIF"),
    "adapt ULSIF": of_adapt("ULSIF", lambdas=PENALTY),
    "adiw ULSIF": lambda a, b, width: ULSIF(width=width, penalty=PENALTY).fit(a, b).weights_,
    "adiw LSIF": lambda a, b, width: LSIF(width=width).fit(a, b).weights_,
    "skada KLIEP": of_skada("KLIEPReweightAdapter"),
    "adapt KLIEP": of_adapt("KLIEP"),
    "adiw KLIEP": lambda a, b, width: KLIEP(width=width, penalty=0).fit(a, b).weights_,
    "densratio uLSIF, searched": of_densratio("uLSIF", searched=True),
    "adiw ULSIF, searched": lambda a, b, width: ULSIF().fit(a, b).weights_,
    "densratio KLIEP, searched": of_densratio("KLIEP", searched=True),
    "adiw KLIEP, searched": lambda a, b, width: KLIEP().fit(a, b).weights_,
    "skada classifier, linear": of_skada("DiscriminatorReweightAdapter"),
    "adiw classifier, linear": lambda a, b, width: ClassifierRatio(LogisticRegression()).fit(a, b).weights_,
    "adiw classifier": lambda a, b, width: ClassifierRatio().fit(a, b).weights_,
    "densratio RuLSIF": of_densratio("RuLSIF"),
    "adapt RULSIF": of_adapt("RULSIF", lambdas=PENALTY, alpha=ALPHA),
    "adiw RULSIF": lambda a, b, width: RULSIF(ALPHA, width=width, penalty=PENALTY).fit(a, b).weights_,
    "densratio RuLSIF, searched": of_densratio("RuLSIF", searched=True),
    "adiw RULSIF, searched": lambda a, b, width: RULSIF(ALPHA).fit(a, b).weights_,
}
PACKAGES = ("densratio", "skada", "adapt")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--searched", action="store_true", help="only the searches, on other problems")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    out = arguments.out or Path(f"benchmarks/results/peers{'-searched' if arguments.searched else ''}.json")
    warnings.simplefilter("ignore")
    np.random.seed(0)  # densratio draws its centres from it
    missing = [name for name in PACKAGES if find_spec(name) is None]
    installed = {name: weigh for name, weigh in METHODS.items() if name.split()[0] not in missing}
    if arguments.searched:
        installed = {name: weigh for name, weigh in installed.items() if name.endswith("searched")}
    problems = FURTHER if arguments.searched else PROBLEMS
    rows = [row for problem in problems for row in compare(installed, problem, arguments.seeds)]
    kmm = compare_kmm() if find_spec("cvxopt") and not arguments.searched else None
    described = describe(*PACKAGES, "cvxopt", "scikit-learn", "scipy")
    content = {"estimators": rows, "kmm": kmm, "not_installed": missing, **described}
    out.write_text(json.dumps(content, indent=2) + "\n")
    for row in rows:
        print(row)
    print(kmm)
    print(f"not installed: {', '.join(missing) or 'nothing'}")


def compare(methods: dict[str, Weigh], problem: Problem, seeds: int) -> list[dict[str, object]]:
    """Time all methods alternately, seed by seed. A method that fails is skipped from then on."""
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    errors: dict[str, list[float]] = {name: [] for name in methods}
    failed: dict[str, str] = {}
    for seed in range(-1, seeds):  # the first round is a warm-up and is not counted
        train, test, ratio = sample(problem, seed + 1)
        for name in [name for name in methods if name not in failed]:
            try:
                elapsed, weights = _timed(methods[name], train, test, problem.width)
            except Exception as error:
                failed[name] = first_line(error)
                continue
            if seed >= 0:
                truth = ratio / (ALPHA * ratio + 1 - ALPHA) if "rulsif" in name.lower() else ratio
                seconds[name].append(elapsed)
                errors[name].append(float(np.mean((weights / weights.mean() - truth / truth.mean()) ** 2)))
    return [
        {"problem": problem.name, "name": name}
        | (
            {"error": failed[name]}
            if name in failed
            else {
                "median_seconds": statistics.median(seconds[name]),
                "median_error": statistics.median(errors[name]),
            }
        )
        for name in methods
    ]


def _timed(weigh: Weigh, train: np.ndarray, test: np.ndarray, width: float) -> tuple[float, np.ndarray]:
    start = time.perf_counter()
    weights = weigh(train, test, width)
    return time.perf_counter() - start, weights


def compare_kmm() -> dict[str, float]:
    """Objective and time of KMM at n = 2000, and of cvxopt at its default tolerances."""
    width = PROBLEMS[0].width
    train, test, _ = sample(PROBLEMS[0], 1)
    start = time.perf_counter()
    fit = KMM(width=width, upper=UPPER).fit(train, test)
    ours = time.perf_counter() - start
    start = time.perf_counter()
    theirs = cvxopt_objective(train, test, width)
    elapsed = time.perf_counter() - start
    return {
        "adiw_seconds": ours,
        "cvxopt_seconds": elapsed,
        "times_faster": elapsed / ours,
        "adiw_objective": fit.objective_,
        "cvxopt_objective": theirs,
        "adiw_above_cvxopt": (fit.objective_ - theirs) / abs(theirs),
    }


def cvxopt_objective(train: np.ndarray, test: np.ndarray, width: float) -> float:
    """min w'Kw - 2k'w over 0 <= w <= upper and the band on the mean, by cvxopt: the optimal value."""
    from cvxopt import matrix, solvers

    n = len(train)
    K = rbf_features(train, train, width)
    k = rbf_features(train, test, width).sum(1) * n / len(test)
    slack = (n**0.5 - 1) / n**0.5
    G = np.concatenate([np.eye(n), -np.eye(n), np.ones((1, n)), -np.ones((1, n))])
    h = np.concatenate([np.full(n, UPPER), np.zeros(n), [n * (1 + slack), n * (slack - 1)]])
    solvers.options["show_progress"] = False
    w = np.array(solvers.qp(matrix(2 * K), matrix(-2 * k), matrix(G), matrix(h))["x"])[:, 0]
    return float(w @ K @ w - 2 * k @ w)


def sample(problem: Problem, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(training points, test points, true ratio at the training points)."""
    random, dim = np.random.default_rng(seed), problem.dim
    train = random.normal(0, 1, (N_TRAIN, dim))
    test = random.normal(problem.mean, problem.sd, (N_TEST, dim))
    exponent = (train**2 - ((train - problem.mean) / problem.sd) ** 2).sum(1) / 2
    return train, test, np.exp(exponent) / problem.sd**dim


if __name__ == "__main__":
    main()
