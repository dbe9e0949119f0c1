"""Accuracy after each epoch: all methods of a setting, and a closer look at the best."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from adiw.reports.style import Look, looks
from adiw.reports.sweeps import LAST, Cell, Sweep

NEAR = 3.0  # points below the best end that the closer look shows
_LABELS = {"accuracy": "accuracy (%)", "top5": "top-5 accuracy (%)"}
Array = NDArray[np.float64]


def has_curves(sweep: Sweep, column: str, measure: str) -> bool:
    return any(curves_of(sweep.cells[row, column], measure) for row in sweep.rows)


def curves_of(cell: Cell, measure: str) -> list[list[float]]:
    """The curves of the finished trials."""
    return [trial.curve(measure) for trial in cell.done if trial.curve(measure)]


def curves_figure(sweep: Sweep, column: str, measure: str = "accuracy") -> Figure:
    """The mean over the finished trials with a band from the lowest to the highest; a dead trial ends in a cross.

    Where three methods or more end near each other at the top, a second panel shows these smoothed and closer.
    """
    ends = _ends(sweep, column, measure)
    near = [row for row, end in ends.items() if end > max(ends.values()) - NEAR]
    figure = Figure(figsize=(9.6 if len(near) > 2 else 6.4, 4.0), layout="constrained")
    panels = figure.subplots(1, 2 if len(near) > 2 else 1, squeeze=False)[0]
    for axes in panels:
        axes.set(xlabel="epoch")
        axes.margins(x=0.01)
    for at, (row, look) in enumerate(looks(sweep.rows).items()):
        cell = sweep.cells[row, column]
        _draw(panels[0], cell, measure, look, at / len(sweep.rows))
        _draw_ends(panels[0], cell, measure, look)
        if row in near and len(panels) > 1:
            _draw(panels[1], cell, measure, look, at / len(sweep.rows), smooth=LAST)
    panels[0].set(ylabel=_LABELS[measure], ylim=_limits(sweep, column, measure, sweep.rows, skip=0.05))
    figure.suptitle(f"{sweep.recipe['title']}, {column}", x=0.01, horizontalalignment="left")
    if len(panels) > 1:
        panels[1].set_ylim(_limits(sweep, column, measure, near, skip=0.3))
        panels[1].set_title(f"the best, closer: running mean of {LAST} epochs", loc="left")
    handles, names = panels[0].get_legend_handles_labels()
    labels = [f"{name}  {ends[name]:.1f}" for name in names]
    figure.legend(handles, labels, loc="outside right upper", handlelength=4, title=f"mean of the last {LAST}")
    return figure


def _ends(sweep: Sweep, column: str, measure: str) -> dict[str, float]:
    """Row -> mean over the last ten epochs, of rows with curves."""
    cells = [sweep.cells[row, column] for row in sweep.rows]
    figures = {cell.row: cell.figure(measure) for cell in cells if curves_of(cell, measure)}
    return {row: figure[0] for row, figure in figures.items() if figure}


def _draw(axes: Axes, cell: Cell, measure: str, look: Look, shift: float, smooth: int = 1) -> None:
    """One method; ten markers on its curve, shifted so that those of different methods do not hide each other."""
    curves = [_running_mean(curve, smooth) for curve in curves_of(cell, measure)]
    if not curves:
        return
    longest = max(map(len, curves))
    padded: Array = np.array([[*curve, *[np.nan] * (longest - len(curve))] for curve in curves])
    epochs, every = np.arange(1, longest + 1), max(1, longest // 10)
    (line,) = axes.plot(epochs, np.nanmean(padded, 0), color=look.colour, linewidth=1.2, label=cell.row)
    line.set(dashes=look.dashes, marker=look.marker, markersize=4, markevery=(int(shift * every), every))
    axes.fill_between(epochs, np.nanmin(padded, 0), np.nanmax(padded, 0), color=look.colour, alpha=0.12, linewidth=0)


def _draw_ends(axes: Axes, cell: Cell, measure: str, look: Look) -> None:
    """The trials that did not finish, as thin lines that end in a cross."""
    for trial in cell.trials:
        curve = trial.curve(measure)
        if trial.status != "done" and curve:
            axes.plot(range(1, len(curve) + 1), curve, color=look.colour, linewidth=0.6, dashes=look.dashes)
            axes.plot(len(curve), curve[-1], color=look.colour, marker="x", markersize=7, markeredgewidth=1.6)


def _running_mean(curve: Sequence[float], length: int) -> Array:
    """The mean of each value and up to ``length`` - 1 before it.

    >>> _running_mean([1.0, 3.0, 5.0], 2).tolist()
    [1.0, 2.0, 4.0]
    """
    total = np.cumsum([0.0, *curve])
    first = np.maximum(np.arange(len(curve)) - length + 1, 0)
    mean: Array = (total[1:] - total[first]) / (np.arange(len(curve)) - first + 1)
    return mean


def _limits(sweep: Sweep, column: str, measure: str, rows: Sequence[str], skip: float) -> tuple[float, float]:
    """Just around the curves of these rows, but for a share of the first epochs, which may leave the picture."""
    curves = [curve for row in rows for curve in curves_of(sweep.cells[row, column], measure)]
    values = [value for curve in curves for value in curve[int(len(curve) * skip) :]]
    low, high = min(values), max(values)
    margin = 0.04 * max(high - low, 0.5)
    return low - margin, high + margin
