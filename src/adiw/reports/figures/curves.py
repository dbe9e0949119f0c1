"""Accuracy after each epoch: all methods of a column, and a panel that zooms in on the best."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from adiw.experiments.run_record import LAST
from adiw.reports.figures.style import RowStyle, row_styles
from adiw.reports.results import Cell, Results, Trial

NEAR = 3.0  # the zoomed panel shows methods that end at most this many points below the best
_LABELS = {"accuracy": "accuracy (%)", "top5": "top-5 accuracy (%)"}
Array = NDArray[np.float64]


def has_curves(results: Results, column: str, measure: str) -> bool:
    return any(curves_of(results.cells[row, column], measure) for row in results.rows)


def curves_of(cell: Cell, measure: str) -> list[Array]:
    """The curves of the finished trials."""
    return [curve for trial in cell.done if len(curve := _curve(trial, measure))]


def _curve(trial: Trial, measure: str) -> Array:
    """A value for each epoch, NaN where it was not finite; empty without this measure."""
    return np.array(trial.curves.get(measure) or [], np.float64)


def curves_figure(results: Results, column: str, measure: str = "accuracy") -> Figure:
    """The mean over the finished trials, a band from the lowest to the highest, and a cross where a trial died.

    Where three methods or more end near the best, a second panel zooms in on their running means.
    """
    ends = _ends(results, column, measure)
    near = [row for row, end in ends.items() if end > max(ends.values()) - NEAR]
    figure = Figure(figsize=(9.6 if len(near) > 2 else 6.4, 4.0), layout="constrained")
    panels = figure.subplots(1, 2 if len(near) > 2 else 1, squeeze=False)[0]
    for axes in panels:
        axes.set(xlabel="epoch")
        axes.margins(x=0.01)
    for at, (row, style) in enumerate(row_styles(results.rows).items()):
        cell = results.cells[row, column]
        _draw(panels[0], cell, measure, style, at / len(results.rows))
        _draw_ends(panels[0], cell, measure, style)
        if row in near and len(panels) > 1:
            _draw(panels[1], cell, measure, style, at / len(results.rows), smooth=LAST)
    panels[0].set(ylabel=_LABELS[measure], ylim=_limits(results, column, measure, results.rows, skip=0.05))
    figure.suptitle(f"{results.title}, {column}", x=0.01, horizontalalignment="left")
    if len(panels) > 1:
        panels[1].set_ylim(_limits(results, column, measure, near, skip=0.3))
        panels[1].set_title(f"zoom on the best: running mean of {LAST} epochs", loc="left")
    handles, names = panels[0].get_legend_handles_labels()
    labels = [f"{name}  {ends[name]:.1f}" for name in names]
    figure.legend(handles, labels, loc="outside right upper", handlelength=4, title=f"mean of the last {LAST}")
    return figure


def _ends(results: Results, column: str, measure: str) -> dict[str, float]:
    """Row -> mean over the last ten epochs, of rows with curves."""
    cells = [results.cells[row, column] for row in results.rows]
    figures = {cell.row: cell.figure(measure) for cell in cells if curves_of(cell, measure)}
    return {row: figure.mean for row, figure in figures.items() if figure}


def _draw(axes: Axes, cell: Cell, measure: str, style: RowStyle, shift: float, smooth: int = 1) -> None:
    """One method, with ten markers on its curve, shifted so that markers of different methods do not overlap."""
    curves = [_running_mean(curve, smooth) for curve in curves_of(cell, measure)]
    if not curves:
        return
    longest = max(map(len, curves))
    padded: Array = np.array([[*curve, *[np.nan] * (longest - len(curve))] for curve in curves])
    epochs, every = np.arange(1, longest + 1), max(1, longest // 10)
    (line,) = axes.plot(epochs, np.nanmean(padded, 0), color=style.colour, linewidth=1.2, label=cell.row)
    line.set(dashes=style.dashes, marker=style.marker, markersize=4, markevery=(int(shift * every), every))
    axes.fill_between(epochs, np.nanmin(padded, 0), np.nanmax(padded, 0), color=style.colour, alpha=0.12, linewidth=0)


def _draw_ends(axes: Axes, cell: Cell, measure: str, style: RowStyle) -> None:
    """The trials that did not finish, as thin lines that end in a cross."""
    for trial in cell.trials:
        curve = _curve(trial, measure)
        if trial.status != "done" and len(curve):
            axes.plot(range(1, len(curve) + 1), curve, color=style.colour, linewidth=0.6, dashes=style.dashes)
            axes.plot(len(curve), curve[-1], color=style.colour, marker="x", markersize=7, markeredgewidth=1.6)


def _running_mean(curve: Array, length: int) -> Array:
    """The mean of each value and up to ``length`` - 1 before it.

    >>> _running_mean(np.array([1.0, 3.0, 5.0]), 2).tolist()
    [1.0, 2.0, 4.0]
    """
    return np.array([curve[max(0, end - length) : end].mean() for end in range(1, len(curve) + 1)])


def _limits(results: Results, column: str, measure: str, rows: Sequence[str], skip: float) -> tuple[float, float]:
    """The range of these rows' curves after the first ``skip`` share of the epochs, with a margin."""
    curves = [curve for row in rows for curve in curves_of(results.cells[row, column], measure)]
    values = np.concatenate([curve[int(len(curve) * skip) :] for curve in curves])
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    margin = 0.04 * max(high - low, 0.5)
    return low - margin, high + margin
