"""The time of an epoch of many runs of Fashion-MNIST that share one device, by the ways to run them.

    python benchmarks/many_runs.py [--ways alone "12 processes"] [--runs 12] [--epochs 30] [--budget 60] [--out DIR]

Runs of ADIW-KL under 40% wrong labels, with the evaluation of each epoch. Without the data, random images of the same
shape are used. The time is taken between the moments when 40% and 90% of all epochs are done: by then
all processes have begun.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Generator

import adiw.data
from adiw.data import Data, DataError, Samples, load
from adiw.experiments.executors import Executor, Pending, run_on
from adiw.experiments.local_executor import LocalExecutor
from adiw.experiments.recipes import Part, Planned, plan
from adiw.experiments.recipes import load as load_recipe
from adiw.experiments.resume import open_sweep
from adiw.experiments.run import Interrupted
from adiw.experiments.shared_gpu import shared_gpu
from adiw.experiments.sweep import Sweep
from adiw.experiments.training_run import Engine
from record import RESULTS, Record, describe, first_line

RECIPE, ROW, COLUMN, DATASET = "fmnist-noise-ours", "ADIW-KL", "0.4 symmetric", "fashion-mnist"
BEGIN, END = 0.4, 0.9  # shares of all epochs between which the time is taken
SIZES = (60_000, 10_000)


@dataclass(frozen=True)
class Way:
    """How many processes share the device, with a run each."""

    processes: int = 1
    runs: int | None = None  # instead of all


WAYS = {"alone": Way(runs=1), **{f"{number} processes": Way(number) for number in (2, 4, 8, 12)}}


class Generated:
    """An executor whose workers use random images in place of the data set."""

    def __init__(self, executor: Executor, sizes: tuple[int, int]) -> None:
        self.executor, self.sizes = executor, sizes

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Pending:
        return self.executor.submit(with_generated, self.sizes, function, *arguments)


def with_generated(sizes: tuple[int, int], function: Callable[..., Any], *arguments: Any) -> Any:
    """Call the function with random images in place of the data set."""
    generate(sizes)
    return function(*arguments)


def generate(sizes: tuple[int, int]) -> None:
    """Use random images in place of the data set in this process."""

    def make(root: Path) -> Data:
        random = Generator().manual_seed(0)
        train, test = (
            Samples(
                torch.randint(256, (count, 1, 28, 28), dtype=torch.uint8, generator=random),
                torch.randint(10, (count,), generator=random),
            )
            for count in sizes
        )
        return Data(DATASET, train, test, tuple(map(str, range(10))), (0.0,), (1.0,))

    adiw.data.DATASETS[DATASET] = make


def measure(
    way: Way, runs: int, epochs: int, device: torch.device, sizes: tuple[int, int] | None, given: dict[str, Any]
) -> dict[str, Any]:
    """The row of a way: seconds of 100 epochs of one run, and of everything."""
    recipe = load_recipe(RECIPE)
    lines: list[str] = []
    times: list[float] = []
    count = way.runs or runs
    part = Part((ROW,), (COLUMN,), count, {"epochs": epochs, **given})
    done: dict[Planned, int] = {}

    def progress(job: Planned, row: dict[str, Any]) -> None:
        times.extend([time.perf_counter()] * (row["epoch"] - done.get(job, 0)))
        done[job] = row["epoch"]

    def run_all(executor: Executor | None, sweep: Sweep) -> None:
        for job, record in run_on(executor, sweep, plan(recipe, part), progress):
            progress(job, {"epoch": epochs})
            if record["status"] == "failed":
                raise RuntimeError(record["reason"])

    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        engine = Engine(device, 0, log=lines.append)
        sweep = Sweep(open_sweep(recipe, part.changes, Path(folder)), None, engine, way.processes)
        if way.processes == 1:
            run_all(None, sweep)
        else:
            sweep.engine = Engine(device, 0)
            with shared_gpu(way.processes), LocalExecutor(way.processes) as executor:
                run_all(executor if sizes is None else Generated(executor, sizes), sweep)
        whole = time.perf_counter() - start
    first, last = (min(int(share * len(times)), len(times) - 1) for share in (BEGIN, END))
    return {
        "runs": count,
        "epochs": epochs,
        "seconds_per_100_epochs": 100 * (times[last] - times[first]) / (last - first),
        "seconds": whole,
        "data": "generated" if sizes else DATASET,
        "log": lines,
    }


def line(row: dict[str, Any]) -> str:
    if "error" in row:
        return f"{row['way']:28s} {row['error']}"
    found = f"{row['seconds_per_100_epochs']:7.2f} s for 100 epochs of a run, {row['seconds']:.1f} s in all"
    return f"{row['way']:28s} {found}  {'; '.join(row['log'])}"


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=list(WAYS))
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds after which no way is started")
    parser.add_argument("--images", type=int, help="number of generated training images, for a smaller run")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(given)
    begin, device, sizes = time.monotonic(), torch.device(options.device), None
    try:
        if options.images is not None:
            raise DataError("generated images are wanted")
        load(DATASET)
    except DataError:
        sizes = SIZES if options.images is None else (options.images, options.images // 6)
        generate(sizes)
    changes = {} if options.images is None else {"batch": 16, "val_batch": 16, "trusted": options.images // 4}
    record = Record(options.out / f"many-runs-{device.type}.json", **describe(device=device.type))
    for title in options.ways:
        row: dict[str, Any] = {"way": title}
        if time.monotonic() - begin > options.budget:
            row["error"] = "there was no time left"
        else:
            try:
                row |= measure(WAYS[title], options.runs, options.epochs, device, sizes, changes)
            except (RuntimeError, Interrupted) as error:
                row["error"] = first_line(error)
        record.add(row)
        print(line(row), flush=True)


if __name__ == "__main__":
    main()
