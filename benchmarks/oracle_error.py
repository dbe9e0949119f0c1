"""Squared error of KLIEP and LSIF on the known-ratio problem of peers.py, for many seeds and several penalties.

LSIF's default penalty is chosen on the 20 seeds of the test in tests/classic; these are other seeds.

    python benchmarks/oracle_error.py [--seeds 100] [--out benchmarks/results/oracle_error.json]
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

import numpy as np

from adiw.classic import KLIEP, LSIF
from peers import PROBLEMS, sample
from record import describe

PENALTIES = (1e-5, 0.003, 0.005, 0.01, 0.015, 0.02, 0.03)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/oracle_error.json"))
    arguments = parser.parse_args()
    problem = PROBLEMS[0]
    estimators = {f"LSIF penalty {p:g}": LSIF(width=problem.width, penalty=p) for p in PENALTIES}
    estimators["KLIEP"] = KLIEP(width=problem.width, penalty=0)
    errors: dict[str, list[float]] = {name: [] for name in estimators}
    for seed in range(1, arguments.seeds + 1):
        train, test, truth = sample(problem, seed)
        for name, estimator in estimators.items():
            weights = estimator.fit(train, test).weights_
            errors[name].append(float(np.mean((weights / weights.mean() - truth / truth.mean()) ** 2)))
    rows = [
        {
            "name": name,
            "median": statistics.median(values),
            "medians_of_20": [statistics.median(values[i : i + 20]) for i in range(0, len(values), 20)],
        }
        for name, values in errors.items()
    ]
    described = describe("scikit-learn", "scipy")
    record = {"seeds": [1, arguments.seeds], "rows": rows, **described}
    arguments.out.write_text(json.dumps(record, indent=2) + "\n")
    for row in rows:
        print(f"{row['name']:20s} {row['median']:.4f}  {[round(m, 4) for m in row['medians_of_20']]}")


if __name__ == "__main__":
    main()
