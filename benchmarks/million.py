"""The classic estimators on a million training points in ten dimensions: wall-clock time and peak memory.

python benchmarks/million.py [--points 1000000] [--out benchmarks/results/million.json]
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path

import numpy as np

from adiw.classic import KLIEP, KMM, LSIF, ULSIF
from record import describe


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/million.json"))
    arguments = parser.parse_args()
    random = np.random.default_rng(0)
    train = random.normal(size=(arguments.points, 10))
    test = random.normal(0.3, 0.9, size=(1000, 10))
    truth = _ratio(train)
    rows = []
    for estimator in (KLIEP(width="median", penalty=0), LSIF(width="median"), ULSIF(width="median"), KMM()):
        start = time.perf_counter()
        fit = estimator.fit(train, test)
        row = {
            "estimator": type(estimator).__name__,
            "seconds": round(time.perf_counter() - start, 1),
            "peak_memory_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
            "mean_weight": float(fit.weights_.mean()),
            "samples_without_weight": int((fit.weights_ == 0).sum()),
            "correlation_with_true_ratio": float(np.corrcoef(fit.weights_, truth)[0, 1]),
        }
        if isinstance(fit, KMM):
            row["certified_gap"] = fit.gap_ / abs(fit.objective_)
        rows.append(row)
        print(row, flush=True)
    arguments.out.write_text(json.dumps({"points": arguments.points, "rows": rows, **describe()}, indent=2) + "\n")


def _ratio(x: np.ndarray) -> np.ndarray:
    """N(0.3, 0.9^2) over N(0, 1) in each coordinate."""
    return np.exp((x**2 / 2 - (x - 0.3) ** 2 / (2 * 0.81)).sum(1) - 10 * np.log(0.9))


if __name__ == "__main__":
    main()
