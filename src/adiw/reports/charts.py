"""The data of a page's charts: curves and histograms of each cell."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from adiw.reports.diagnosis import majority_rates
from adiw.reports.results import Cell, Curve, Results

REFERENCES = ("uniform", "val-only")  # without weights, and on the trusted samples alone


def chart_data(results: Results) -> dict[str, Any]:
    """What the page's script draws; rows and columns of cells are numbers."""
    return {
        "rows": results.rows,
        "columns": results.columns,
        "references": [_references(results, column) for column in results.columns],
        "cells": [
            entry
            for c, column in enumerate(results.columns)
            for r, row in enumerate(results.rows)
            if (entry := _cell(results.cells[row, column], r, c))
        ],
    }


def _references(results: Results, column: str) -> list[dict[str, Any]]:
    """Horizontal lines in the charts of the accuracy: the most frequent class, and what a run is compared with."""
    majority = majority_rates(results).get(column)
    found = [(f"always {majority['class']}", majority["rate"])] if majority else []
    if results.planned is None:
        means = {row: cell.figure("accuracy") for row in REFERENCES if (cell := results.cells.get((row, column)))}
        found += [(row, figure.mean) for row, figure in means.items() if figure]
    return [{"name": name, "value": rounded(value)} for name, value in found]


def _cell(cell: Cell, row: int, column: int) -> dict[str, Any] | None:
    """Curves and weights of a cell; None where it has neither."""
    drawn = {name for trial in cell.trials for name, curve in trial.curves.items() if set(curve) != {None}}
    names = dict.fromkeys(name for trial in cell.trials for name in trial.curves if name in drawn)
    curves = {name: curve_of(cell, name) for name in names}
    if not curves and cell.weights is None:
        return None
    best = cell.trials[0].record.get("best") if len(cell.trials) == 1 else None
    found = {"row": row, "column": column, "curves": curves, "weights": cell.weights and _shares(cell.weights)}
    return found if best is None else {**found, "best": best["epoch"]}


def curve_of(cell: Cell, name: str) -> dict[str, Any]:
    """The mean of the finished trials with its range, and each other trial by itself."""
    finished = [trial.curves[name] for trial in cell.done if name in trial.curves]
    others = [(t.status, t.curves[name]) for t in cell.trials if t.status != "done" and name in t.curves]
    found: dict[str, Any] = {"mean": _bound(finished, statistics.fmean)}
    if len(finished) > 1:
        found["low"], found["high"] = _bound(finished, min), _bound(finished, max)
    if others:
        found["others"] = [{"status": status, "values": [rounded(v) for v in curve]} for status, curve in others]
    return found


def _bound(curves: Sequence[Curve], of: Callable[[list[float]], float]) -> Curve:
    """``of`` the values after each epoch of the curves that have it."""
    longest = max((len(curve) for curve in curves), default=0)
    epochs = [[v for curve in curves if len(curve) > k and (v := curve[k]) is not None] for k in range(longest)]
    return [rounded(of(values)) if values else None for values in epochs]


def _shares(weights: dict[str, Any]) -> dict[str, Any]:
    """Histograms as shares of their group."""
    groups = {
        name: {
            "count": group["count"],
            "mean": rounded(group.get("mean")),
            "shares": [rounded(count / max(group["count"], 1), 4) for count in group["histogram"]],
        }
        for name, group in weights["groups"].items()
    }
    return {"edges": weights["edges"], "groups": groups}


def rounded(value: float | None, digits: int = 5) -> float | None:
    """A number with as many digits as a chart needs; None for one that is not finite."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}")
