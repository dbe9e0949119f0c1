"""Seconds per run of a sweep: one run at a time, as the command chooses, and with given numbers of runs.

    python benchmarks/sweep_throughput.py [--device cuda] [--runs 12] [--epochs 100] [--limit 120]

ADIW-KL with 40% wrong labels and default settings; only the seed differs between runs. Each way of running gets a
folder of its own. A way that takes longer than the limit has a row without a time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from adiw.data import DataError, load
from record import RESULTS, Record, describe

RECIPE = """
title = "Throughput"
about = "The same run with other seeds."
trials = {runs}
[settings]
dataset = "{dataset}"
epochs = {epochs}
[[column]]
label = "40% wrong"
shift = "symmetric:0.4"
[[row]]
label = "ADIW-KL"
method = "adiw-kl"
"""
ALONE = "one at a time"
WAYS = {
    ALONE: ("--processes", "1", "--side-by-side", "1"),
    "default": (),
    **{f"{n} processes": ("--processes", str(n), "--side-by-side", "1") for n in (2, 3, 4, 6)},
    "2 processes, 3 runs in each": ("--processes", "2", "--side-by-side", "3"),
}


def measure(way: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run the sweep in its own process; return the row of the record. One at a time, three runs are enough."""
    runs = min(options.runs, 3) if way == ALONE else options.runs
    with tempfile.TemporaryDirectory() as folder:
        recipe, out = Path(folder) / "throughput.toml", Path(folder) / "out"
        recipe.write_text(RECIPE.format(runs=runs, dataset=options.dataset, epochs=options.epochs))
        command = [sys.executable, "-m", "adiw", "sweep", str(recipe), "--out", str(out), "--device", options.device]
        begun, done = time.monotonic(), None
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = subprocess.run([*command, "--quiet", *WAYS[way]], capture_output=True, timeout=options.limit)
        seconds = time.monotonic() - begun
        file = out / "results.jsonl"
        records = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    ended = [record for record in records if record["status"] == "done"]
    return {
        "way": way,
        "runs": runs,
        "done": len(ended),
        "seconds_per_run": seconds / runs if done is not None and len(ended) == runs else None,
        "side_by_side": [record["side_by_side"] for record in ended],
        "said": done.stderr.decode().splitlines() if done is not None else [],
    }


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dataset", default="fashion-mnist")
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--limit", type=float, default=300, help="seconds for each way of running")
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=list(WAYS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(given)
    try:
        load(options.dataset)
    except DataError as error:
        print(f"not measured: {error}")
        return
    heading = {"dataset": options.dataset, "epochs": options.epochs, **describe(device=options.device)}
    record = Record(options.out / f"sweep-{options.device}.json", **heading)
    for way in options.ways:
        row = measure(way, options)
        record.add(row)
        print({name: value for name, value in row.items() if name != "said"}, flush=True)


if __name__ == "__main__":
    main()
