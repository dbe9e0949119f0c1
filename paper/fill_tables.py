"""Run the cells of the paper's tables that have no record yet, in a fixed order, within a time budget.

    python paper/fill_tables.py --budget 25m -- --processes 4

Each run that ends is appended to ``results/RECIPE/results.jsonl``; the next call runs what is missing.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from adiw.experiments.budget import seconds_of

RESULTS = Path(__file__).parents[1] / "results"
ADIW = ("ADIW-KM", "ADIW-KL", "ADIW-LS", "ADIW-WA")
SYMMETRIC = ("0.4 symmetric",)
SMALLEST = 60.0  # seconds: a sweep is not started for less

# (recipe, rows, columns or () for all, trials)
ORDER: list[tuple[str, tuple[str, ...], tuple[str, ...], int]] = [
    ("cifar10-noise-ours", ("ADIW",), SYMMETRIC, 1),
    ("fmnist-noise-ours", ("ADIW",), (), 3),
    ("fmnist-noise", ADIW, (), 3),
    ("fmnist-noise", ("L2R", "MW-Net"), (), 3),
    ("fmnist-noise", ("DIW",), (), 1),
    ("fmnist-noise-ours", ("Uniform", "Random", "Oracle"), (), 3),
    ("cifar10-noise-ours", ("Uniform", "Random", *ADIW), SYMMETRIC, 1),
    ("cifar10-noise-ours", ADIW, SYMMETRIC, 3),
    ("cifar10-noise-ours", ("Uniform", "Random", *ADIW), (), 1),
    ("fmnist-prior", (), (), 3),
    ("fmnist-prior-ours", (), (), 3),
    ("val-size", (), (), 1),
    ("transforms", (), (), 1),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", required=True, help="a duration such as 25m")
    parser.add_argument("sweep", nargs="*", help="options of adiw sweep, after --")
    given = parser.parse_args()
    end = time.monotonic() + seconds_of(given.budget)
    for recipe, rows, columns, trials in ORDER:
        left = end - time.monotonic()
        if left < SMALLEST:
            return
        chosen = [
            *(part for row in rows for part in ("--method", row)),
            *(part for column in columns for part in ("--shift", column)),
        ]
        limits = ["--trials", str(trials), "--budget", f"{left:.0f}s", "--out", str(RESULTS / recipe)]
        command = [sys.executable, "-m", "adiw", "sweep", recipe, *chosen, *limits, "--quiet", *given.sweep]
        subprocess.run(command, check=False)  # exit code 3: a run is dead or failed, or the budget is spent


if __name__ == "__main__":
    main()
