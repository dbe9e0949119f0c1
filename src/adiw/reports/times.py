"""The seconds of an epoch: measured alone on the device, or else those of the runs themselves."""

from __future__ import annotations

import statistics

from adiw.reports.grid import Box
from adiw.reports.sweeps import Sweep


def own_seconds(sweep: Sweep, row: str, column: str) -> float | None:
    """Seconds per epoch on a device that did nothing else: as timed alone, or the mean over runs that ran alone."""
    line = sweep.timing.get((row, column))
    if line is not None:
        return float(line["seconds_per_epoch"])
    return run_seconds(sweep, row, column) if side_by_side(sweep, row, column) == 1 else None


def run_seconds(sweep: Sweep, row: str, column: str) -> float | None:
    """The mean seconds per epoch of the finished runs; None without any."""
    seconds = [trial.record.get("seconds_per_epoch") for trial in sweep.cells[row, column].done]
    known = [float(value) for value in seconds if value is not None]
    return statistics.fmean(known) if known else None


def side_by_side(sweep: Sweep, row: str, column: str) -> int:
    """How many runs shared the device at most: 1 when each ran alone."""
    return max((trial.record.get("side_by_side") or 1 for trial in sweep.cells[row, column].done), default=1)


def time_box(sweep: Sweep, row: str, column: str) -> Box:
    """The seconds; where several runs shared the device, theirs, and that they are not comparable."""
    alone, runs = own_seconds(sweep, row, column), run_seconds(sweep, row, column)
    if alone is not None:
        return Box(f"{alone:.3f}")
    return Box("missing" if runs is None else f"{runs:.3f}; {side_by_side(sweep, row, column)} side by side")


def uniform_row(sweep: Sweep) -> str | None:
    """The row that trains with weights of one, which the others' times are compared with."""
    return next((row for row in sweep.rows if sweep.method(row) == "uniform"), None)
