"""Seconds per epoch: timed alone on the device, or else those of the runs themselves."""

from __future__ import annotations

from adiw.reports.results import Record, Results


def seconds_alone(results: Results, row: str, column: str) -> float | None:
    """Seconds per epoch on an otherwise idle device: as timed, or the mean of runs that each ran alone.

    Where some cells were timed, runs on other hardware or with another engine do not count.
    """
    if (row, column) in results.timing:
        return float(results.timing[row, column]["seconds_per_epoch"])
    if results.cells[row, column].side_by_side > 1:
        return None
    timed = {engine(record) for record in results.timing.values()}
    return results.cells[row, column].seconds if not timed or engines(results, row, column) <= timed else None


def sources(results: Results, row: str, column: str) -> list[Record]:
    """The records that a cell's seconds come from: the one that timed it, or those of the finished trials."""
    timed = results.timing.get((row, column))
    return [trial.record for trial in results.cells[row, column].done] if timed is None else [timed]


def engines(results: Results, row: str, column: str) -> set[str]:
    """The hardware and engines that a cell's seconds were measured with."""
    return {engine(record) for record in sources(results, row, column)}


def engine(record: Record) -> str:
    """
    >>> engine({"hardware": {"device": "H200"}, "engine": {"captured": True, "compiled": True, "processes": 2}})
    'H200, compiled and captured, 2 processes'
    >>> engine({})
    'unknown hardware, eager'
    """
    used = record.get("engine") or {}
    how = " and ".join(name for name in ("compiled", "captured") if used.get(name)) or "eager"
    several = f", {used['processes']} processes" if used.get("processes", 1) > 1 else ""
    return f"{(record.get('hardware') or {}).get('device') or 'unknown hardware'}, {how}{several}"
