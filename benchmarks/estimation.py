"""Weight estimation alone, ADIW's step beside DIW's quadratic program: milliseconds, and the ratio to ADIW-KL.

    python benchmarks/estimation.py [--device cuda] [--batches 256 1024 4096] [--quick] [--patience 10]

Training and validation batch have the same size. DIW's solvers on the host are run where they are installed. The time
of a solver is expected to grow with the cube of the batch size; a solver that is expected to take more than
``--patience`` seconds (half of that on the device, where it is repeated more often) is skipped.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any

import torch

from adiw.baselines.qp_solvers import SOLVERS, resolve_solver
from estimation_case import DIVERGENCES, EstimationCase, attempt, engines, timer_of
from record import RESULTS, Record, describe
from timing import Plan, Timed, Timer, interleave

REFERENCE = "adiw-kl"
HOST = tuple(name for name in SOLVERS if name != "gpu")
Row = dict[str, Any]


def on_device(batch: int, device: torch.device, plan: Plan, before: list[Row], patience: float) -> list[Row]:
    """The rows of all methods on the device at one batch size, timed alternately; the ratios are within an engine."""
    rows = []
    for engine in engines(device):
        slow = {r["method"]: r for r in before if "ms" in r and (r["method"], r["engine"]) == ("diw", engine)}
        late = {name: seconds for name, row in slow.items() if (seconds := expected(row, batch)) > patience}
        others = () if engine == "compiled" else ("diw",)  # its solver is a loop, which is not compiled
        methods = [name for name in (*DIVERGENCES, *others) if name not in late]
        timers = {name: attempt(lambda: _timer(name, batch, device, engine)) for name in methods}  # noqa: B023
        timed = interleave(timers, plan)
        rows += [_row(name, engine, batch, timed[name], timed[REFERENCE]) for name in methods]
        rows += [_skipped(name, engine, batch, f"about {seconds:.0f} s expected") for name, seconds in late.items()]
    return rows


def expected(before: Row | None, batch: int) -> float:
    """Expected seconds of a quadratic program, from those at another size: they grow with the cube of the size."""
    return 0.0 if before is None else before["ms"] / 1000 * (batch / before["batch"]) ** 3


def _timer(method: str, batch: int, device: torch.device, engine: str) -> Timer:
    return timer_of(EstimationCase(method, batch, batch, device), device, engine)


def on_host(solver: str, batch: int, device: torch.device, before: Row | None, patience: float) -> Row:
    """The row of DIW with a solver on the host, timed once or a few times."""
    name, seconds = f"diw, {solver}", expected(before, batch)
    try:
        resolve_solver(solver)
    except ImportError:
        return _skipped(name, "eager", batch, f"{solver} is not installed")
    if patience <= 0:
        return _skipped(name, "eager", batch, "there was no time left")
    if seconds > patience:
        return _skipped(name, "eager", batch, f"about {seconds:.0f} s expected")
    case = EstimationCase("diw", batch, batch, device, solver=solver)

    def timer(times: int) -> float:
        start = time.perf_counter()
        case()  # synchronises: the problem is copied to the host
        return time.perf_counter() - start

    timed = interleave({name: timer}, Plan(rounds=3 if seconds < 1 else 1, times=0))[name]
    return _row(name, "eager", batch, timed, Timed())


def _skipped(name: str, engine: str, batch: int, reason: str) -> Row:
    return {"method": name, "engine": engine, "batch": batch, "skipped": reason}


def _row(name: str, engine: str, batch: int, timed: Timed, reference: Timed) -> Row:
    row = {"method": name, "engine": engine, "batch": batch}
    if timed.median is None:
        return {**row, "error": timed.error}
    return {**row, "ms": 1000 * timed.median, "ratio": timed.over(reference)}


def with_ratio(row: Row, rows: list[Row]) -> Row:
    """The row of a host solver with its ratio to the eager reference of the same batch size."""
    same = [r for r in rows if (r["method"], r["engine"], r["batch"]) == (REFERENCE, "eager", row["batch"])]
    if "ms" not in row or not same or "ms" not in same[0]:
        return row
    return {**row, "ratio": row["ms"] / same[0]["ms"]}


def measure(
    batches: list[int], device: torch.device, plan: Plan, patience: float, deadline: float, out: Record
) -> None:
    """Measure one batch size after another; the record is written after each."""
    last: dict[str, Row] = {}
    for batch in batches:
        out.add(*on_device(batch, device, plan, out.rows, patience / 2))
        for solver in HOST:
            left = min(patience, deadline - time.monotonic())
            row = with_ratio(on_host(solver, batch, device, last.get(solver), left), out.rows)
            last |= {solver: row} if "ms" in row else {}
            out.add(row)
        for row in out.rows:
            if row["batch"] == batch:
                print(row, flush=True)


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batches", type=int, nargs="+", default=[256, 1024, 4096])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--patience", type=float, default=10.0)
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds; no host solver starts after them")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(given)
    device = torch.device(options.device)
    plan = Plan(rounds=3, times=60, limit=0.3) if options.quick else Plan(rounds=5, times=100, limit=0.4)
    heading = describe("qpsolvers", "cvxopt", "osqp", device=device.type)
    record = Record(options.out / f"estimation-{device.type}.json", **heading)
    deadline = time.monotonic() + options.budget
    measure(options.batches, device, plan, 2.0 if options.quick else options.patience, deadline, record)


if __name__ == "__main__":
    main()
