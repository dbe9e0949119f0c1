"""The cost of an estimate with every divergence, relative to KL's, and whether the host waits for the device in it.

    python benchmarks/divergences.py [--device cuda] [--batch 256] [--quick] [--budget 80]

Every divergence is timed alternately with KL, so that a ratio is of times of the same seconds. The record is written
after each; none is started after ``--budget`` seconds.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from cases import NETWORK
from estimation_case import DIVERGENCES, EstimationCase, attempt, engines, timer_of
from record import RESULTS, Record, describe
from timing import Plan, Timer, interleave

REFERENCE = "adiw-kl"
CLASSES = 10  # by which features are matched
Row = dict[str, Any]


@dataclass(frozen=True)
class Column:
    """What is the same for all divergences of a comparison: the engine, the batch, and z ("loss" or "features")."""

    engine: str
    z: str
    batch: int
    device: torch.device

    def others(self) -> list[str]:
        """The divergences that are compared with KL, without those of another column."""
        network = NETWORK if self.z == "loss" else "adiw-wa"  # on features Wasserstein always has its network
        left_out = {REFERENCE} | (set() if self.z == "loss" else {NETWORK})
        left_out |= {network} if self.engine == "compiled" else set()  # a network is not compiled
        return [name for name in DIVERGENCES if name not in left_out]

    def rows(self, plan: Plan, deadline: float) -> Iterator[Row]:
        """The row of KL, then of each of the others, timed alternately with KL."""
        timers: dict[str, Timer] = {}
        for name in (REFERENCE, *self.others()):
            row = {"method": name, "engine": self.engine, "z": self.z, "batch": self.batch}
            if time.monotonic() > deadline:
                yield {**row, "skipped": "there was no time left"}
                continue
            found: Row = {}
            timer = attempt(lambda: self._timer(name, found))  # noqa: B023
            timers.setdefault(REFERENCE, timer)
            timed = interleave({**timers, name: timer}, plan)
            mine = timed[name]
            if mine.median is None:
                yield {**row, "error": mine.error}
            else:
                yield {**row, "ms": 1000 * mine.median, "ratio": mine.over(timed[REFERENCE]), **found}

    def _timer(self, name: str, found: Row) -> Timer:
        case = EstimationCase(
            name, self.batch, self.batch, self.device, classes=None if self.z == "loss" else CLASSES
        )
        timer = timer_of(case, self.device, self.engine)
        found["host_waits"] = case.host_waits
        return timer


def columns(batch: int, device: torch.device) -> list[Column]:
    """Those that need no compiler first, so that they are measured however little time there is."""
    found = sorted(engines(device), key="compiled".__eq__)
    return [Column(engine, z, batch, device) for engine in found for z in ("loss", "features")]


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds after which no divergence is started")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(given)
    deadline = time.monotonic() + options.budget
    device = torch.device(options.device)
    plan = Plan(rounds=3, times=60, limit=0.3) if options.quick else Plan(rounds=7, times=210, limit=0.4)
    record = Record(options.out / f"divergences-{device.type}.json", **describe(device=device.type))
    for column in columns(options.batch, device):
        for row in column.rows(plan, deadline):
            record.add(row)
            print(row, flush=True)


if __name__ == "__main__":
    main()
