"""The time of ``adiw run`` on digits beside other busy processes, relative to the same run without them.

    python benchmarks/busy_machine.py [--neighbours 2] [--rounds 3] [--out benchmarks/results]

The neighbours are endless loops, which are not bound to a core. The rows are measured alternately in each round: with
the command's own number of threads, and with PyTorch's (one for each core). Other processes of the machine disturb
the record: ``load`` is that at its start.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from record import RESULTS, Record, describe

THREADS = {"chosen": None, "one for each core": os.cpu_count() or 1}


def measure(threads: int | None, neighbours: int, epochs: int) -> dict[str, float]:
    """Seconds of one run in its own process, and its seconds of the CPU."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(neighbours)]
    environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    if threads is not None:
        environment["OMP_NUM_THREADS"] = str(threads)
    try:
        with tempfile.TemporaryDirectory() as folder:
            wanted = ["--dataset", "digits", "--epochs", str(epochs), "--device", "cpu", "--quiet", "--out"]
            before, start = os.times(), time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "adiw", "run", *wanted, f"{folder}/run"],
                check=True,
                env=environment,
                capture_output=True,
            )
            seconds, after = time.perf_counter() - start, os.times()
    finally:
        for other in others:
            other.kill()
            other.wait()
    user = after.children_user - before.children_user + after.children_system - before.children_system
    return {"seconds": seconds, "cpu_seconds": user}


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--neighbours", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--threads", nargs="*", choices=THREADS, default=list(THREADS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(given)
    record = Record(options.out / "busy-cpu.json", **describe())
    found: dict[tuple[str, int], list[dict[str, float]]] = {}
    for _ in range(options.rounds):
        for name in options.threads:
            for neighbours in (0, options.neighbours):
                row = measure(THREADS[name], neighbours, options.epochs)
                found.setdefault((name, neighbours), []).append(row)
                print(f"{name}, {neighbours} neighbours: {row['seconds']:.1f} s", flush=True)
    added: list[dict[str, Any]] = []
    for (name, neighbours), times in found.items():
        seconds, idle = ([row["seconds"] for row in rows] for rows in (times, found[name, 0]))
        added.append(
            {
                "threads": name,
                "neighbours": neighbours,
                "epochs": options.epochs,
                "seconds": statistics.median(seconds),
                "ratio": statistics.median(a / b for a, b in zip(seconds, idle, strict=True)),
                "rounds": times,
            }
        )
    record.add(*added)


if __name__ == "__main__":
    main()
