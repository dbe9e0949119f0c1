"""The seconds of an epoch: measured alone on the device, or else those of the runs themselves."""

from __future__ import annotations

import statistics

from adiw.reports.grid import Box
from adiw.reports.sweeps import Line, Sweep


def own_seconds(sweep: Sweep, row: str, column: str) -> float | None:
    """Seconds per epoch on a device that did nothing else: as timed alone, or the mean over runs that ran alone.

    Where some cells were timed, runs of other hardware, or computed in another way, do not count.
    """
    line = sweep.timing.get((row, column))
    if line is not None:
        return float(line["seconds_per_epoch"])
    if side_by_side(sweep, row, column) > 1:
        return None
    timed = {way(line) for line in sweep.timing.values()}
    ways = ways_of(sweep, row, column)
    return run_seconds(sweep, row, column) if not timed or ways <= timed else None


def run_seconds(sweep: Sweep, row: str, column: str) -> float | None:
    """The mean seconds per epoch of the finished runs; None without any."""
    seconds = [trial.record.get("seconds_per_epoch") for trial in sweep.cells[row, column].done]
    known = [float(value) for value in seconds if value is not None]
    return statistics.fmean(known) if known else None


def side_by_side(sweep: Sweep, row: str, column: str) -> int:
    """How many runs shared the device at most: 1 when each ran alone."""
    return max((trial.record.get("side_by_side") or 1 for trial in sweep.cells[row, column].done), default=1)


def sources(sweep: Sweep, row: str, column: str) -> list[Line]:
    """What a cell's seconds are taken from: the line that timed it, or the finished runs."""
    line = sweep.timing.get((row, column))
    return [trial.record for trial in sweep.cells[row, column].done] if line is None else [line]


def ways_of(sweep: Sweep, row: str, column: str) -> set[str]:
    """On which hardware, and how, a cell's seconds were computed."""
    return {way(line) for line in sources(sweep, row, column)}


def way(line: Line) -> str:
    """
    >>> way({"hardware": {"device": "H200"}, "engine": {"captured": True, "compiled": True, "processes": 2}})
    'H200, compiled and captured, 2 processes'
    >>> way({})
    'unknown hardware, eager'
    """
    engine = line.get("engine") or {}
    how = " and ".join(name for name in ("compiled", "captured") if engine.get(name)) or "eager"
    several = f", {engine['processes']} processes" if engine.get("processes", 1) > 1 else ""
    return f"{(line.get('hardware') or {}).get('device') or 'unknown hardware'}, {how}{several}"


def time_box(sweep: Sweep, row: str, column: str) -> Box:
    """The seconds; where they are not comparable with those that were timed, why not."""
    alone, runs = own_seconds(sweep, row, column), run_seconds(sweep, row, column)
    if alone is not None:
        return Box(f"{alone:.3f}")
    if runs is None:
        return Box("missing")
    shared = side_by_side(sweep, row, column)
    why = f"{shared} side by side" if shared > 1 else " and ".join(sorted(ways_of(sweep, row, column)))
    return Box(f"{runs:.3f}; {why}")


def uniform_row(sweep: Sweep) -> str | None:
    """The row that trains with weights of one, which the others' times are compared with."""
    return next((row for row in sweep.rows if sweep.method(row) == "uniform"), None)
