"""Test accuracy of CIFAR-10's network after short training with uniform weights, by the candidates of ``engine.py``.

    python benchmarks/engine_accuracy.py --candidates compiled "+ unfolded stem" [--epochs 24] [--seeds 2] [--out DIR]

Clean labels; the learning rate decays after two thirds of the epochs. The seconds of an epoch are those of training,
and their median leaves out the compilation.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from adiw.experiments.settings import resolve
from adiw.experiments.splits import Splits, load_splits
from adiw.experiments.training_run import Engine, TrainingRun
from engine import CANDIDATES, TODAY, Candidate
from record import RESULTS, Record, describe, first_line

LAST = 3  # epochs whose accuracy is averaged


def train(candidate: Candidate, given: dict[str, Any], splits: Splits, device: torch.device) -> dict[str, Any]:
    """The accuracy and the seconds of a run."""
    compiled, notes = candidate.engine == "compiled", []
    job = TrainingRun(resolve(given), splits, Engine(device, 1, compiled=compiled, log=notes.append))
    with job.on_stream():
        candidate.change(job)
    for _ in range(job.epochs):
        job.train_epoch()
    accuracies, seconds = (
        [row[key] for row in rows] for rows, key in ((job.metrics, "accuracy"), (job.timing, "train_seconds"))
    )
    return {
        "accuracy": statistics.mean(accuracies[-LAST:]),
        "accuracies": accuracies,
        "seconds_per_epoch": statistics.median(seconds),
        "notes": notes,
    }


def line(row: dict[str, Any]) -> str:
    name = f"{row['engine']:40s} seed {row['seed']}"
    return (
        f"{name} {row['error']}"
        if "error" in row
        else f"{name} accuracy {row['accuracy']:.2f}, epoch {row['seconds_per_epoch']:.4f} s"
    )


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--candidates", nargs="*", choices=CANDIDATES, default=[TODAY])
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--set", nargs="*", default=[], help="further settings, as key=value, for a smaller run")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds after which no run is started")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(given)
    begin, device = time.monotonic(), torch.device(options.device)
    settings: dict[str, Any] = {"dataset": "cifar10", "shift": "none", "method": "uniform", "epochs": options.epochs}
    settings["decay_every"] = max(1, 2 * options.epochs // 3)
    for pair in options.set:
        name, value = pair.split("=")
        settings[name] = int(value) if value.isdigit() else value
    splits = load_splits(resolve(settings))
    record = Record(options.out / f"engine-accuracy-{device.type}.json", **describe(device=device.type))
    for seed in range(options.seeds):
        for title in options.candidates:
            row: dict[str, Any] = {"engine": title, "seed": seed}
            if time.monotonic() - begin > options.budget:
                row["error"] = "there was no time left"
            else:
                try:
                    row |= train(CANDIDATES[title], {**settings, "seed": seed}, splits, device)
                except Exception as error:
                    row["error"] = first_line(error)
            record.add(row)
            print(line(row), flush=True)


if __name__ == "__main__":
    main()
