"""How the cost of weight estimation grows with the batch, the validation batch, the classes and the training set.

    python benchmarks/growth.py [--device cuda] [--quick]

One axis grows at a time, and its sizes are timed alternately. The record also has the bytes that a method keeps.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from estimation_case import EstimationCase, attempt, engines, timer_of
from record import RESULTS, Record, describe
from timing import Plan, interleave

Row = dict[str, Any]


@dataclass(frozen=True)
class Axis:
    """The argument that grows, its sizes, and the arguments that stay fixed."""

    argument: str  # of EstimationCase
    sizes: tuple[int, ...]
    methods: tuple[str, ...] = ("adiw-km", "adiw-kl", "adiw-ls", "adiw-wa")
    fixed: dict[str, int] = field(default_factory=dict)
    most_on_cpu: int = 4096


AXES: dict[str, Axis] = {
    "batch": Axis("train", (64, 256, 1024, 4096, 8192), fixed={"val": 256}),
    "validation batch": Axis("val", (64, 256, 1024, 4096), fixed={"train": 256}),
    "classes": Axis("classes", (10, 100, 1000), ("adiw-km", "adiw-kl", "adiw-ls"), {"train": 1024, "val": 1024}),
    "training set": Axis(
        "num_train", (10**5, 10**6, 10**7, 10**8), ("adiw-km", "adiw-kl"), {"train": 256, "val": 256}, 10**7
    ),
}


def measure(title: str, axis: Axis, device: torch.device, plan: Plan, deadline: float = math.inf) -> list[Row]:
    """The rows of one axis, with the fastest engine of the device."""
    engine = engines(device)[0]
    rows = []
    for method in axis.methods:
        sizes = [size for size in axis.sizes if device.type == "cuda" or size <= axis.most_on_cpu]
        kept: dict[int, int] = {}

        def timer(size: int, method: str = method, kept: dict[int, int] = kept) -> Any:
            case = EstimationCase(method, device=device, **{**axis.fixed, axis.argument: size})  # type: ignore[arg-type]
            kept[size] = case.bytes
            return timer_of(case, device, engine)

        timed = interleave({str(size): attempt(lambda: timer(size)) for size in sizes}, plan, deadline)  # noqa: B023
        for size in sizes:
            row = {"axis": title, "method": method, "engine": engine, "size": size, "bytes": kept.get(size)}
            result = timed[str(size)]
            found = {"error": result.error} if result.median is None else {"ms": 1000 * result.median}
            rows.append({**row, **axis.fixed, **found})
    return rows


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds after which no axis is started")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(given)
    deadline = time.monotonic() + options.budget
    device = torch.device(options.device)
    plan = Plan(rounds=3, times=30, limit=0.2) if options.quick else Plan(rounds=5, times=100, limit=0.4)
    record = Record(options.out / f"growth-{device.type}.json", **describe(device=device.type))
    for title, axis in AXES.items():
        if time.monotonic() > deadline:
            print(f"{title}: not measured, the time is used up")
            continue
        record.add(*measure(title, axis, device, plan, deadline))
        for row in record.rows:
            if row["axis"] == title:
                print(row, flush=True)


if __name__ == "__main__":
    main()
