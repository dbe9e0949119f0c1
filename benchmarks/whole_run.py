"""The time of a complete run of the command, and of training and evaluation in it.

    python benchmarks/whole_run.py [--device cuda] [--budget 90] [--dataset fashion-mnist] [--epochs 400]

ADIW-KL with 40% wrong labels and default settings, on a GPU with --compile. Without the data (see $ADIW_DATA) nothing
is measured, and the previous result is kept.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from adiw.data import DataError, load
from record import RESULTS, Record, describe


def measure(dataset: str, epochs: int, device: str, limit: float | None) -> dict[str, Any]:
    """Run the command in its own process; return the row of the record."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        wanted = ["--dataset", dataset, "--shift", "symmetric:0.4", "--method", "adiw-kl", "--epochs", str(epochs)]
        engine = ["--device", device, *(["--compile"] if device == "cuda" else []), "--quiet", "--out", str(out)]
        start = time.time()
        subprocess.run([sys.executable, "-m", "adiw", "run", *wanted, *engine], check=True, timeout=limit)
        end = time.time()
        begun, done = ((out / name).stat().st_mtime for name in ("config.json", "result.json"))
        result = json.loads((out / "result.json").read_text())
        rows = [json.loads(line) for line in (out / "timing.jsonl").read_text().splitlines()]
    train, evaluate = (sum(row[f"{what}_seconds"] for row in rows) for what in ("train", "evaluate"))
    return {
        "dataset": dataset,
        "epochs": epochs,
        "command_seconds": end - start,
        "seconds_before": begun - start,  # until the run's folder exists: imports, reading the data
        "seconds_after": end - done,
        "train_seconds": train,
        "evaluate_seconds": evaluate,
        "first_epoch_seconds": rows[0]["train_seconds"],
        "accuracy": result["accuracy"],
        "engine": result["engine"],
        "settings": result["settings"],
    }


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds after which the run is stopped")
    parser.add_argument("--dataset", default="fashion-mnist")
    parser.add_argument("--epochs", type=int, default=400)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(given)
    try:
        load(options.dataset)
    except DataError as error:
        print(f"not measured: {error}")
        return
    record = Record(options.out / f"whole-{options.device}.json", **describe(device=options.device))
    limit = None if options.budget == math.inf else options.budget
    try:
        row = measure(options.dataset, options.epochs, options.device, limit)
    except subprocess.TimeoutExpired:
        print(f"not measured: it took more than {limit:.0f} s")
        return
    record.add(row)
    print({name: value for name, value in row.items() if name != "settings"})


if __name__ == "__main__":
    main()
