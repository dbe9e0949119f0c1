"""Bars: seconds per epoch, and top-1 beside top-5 accuracy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from adiw.reports.figures.style import row_styles
from adiw.reports.results import Results
from adiw.reports.times import seconds_alone

Values = dict[str, list[float | None]]  # row -> a value for each bar of its group


def time_figure(results: Results) -> Figure:
    """Seconds per epoch on a logarithmic scale, of runs that were alone on the device."""
    columns = results.columns
    values: Values = {row: [seconds_alone(results, row, column) for column in columns] for row in results.rows}
    figure, axes = _figure(f"{results.title}: training time", len(columns), len(values))
    known = [value for row in values.values() for value in row if value]
    start = min(known) / 2
    axes.set(xlabel="seconds per epoch (logarithmic)", xscale="log", xlim=(start, max(known) * 2))
    axes.xaxis.set_major_formatter("{x:g}")
    _bars(figure, axes, columns, values, "{:.3g}", start)
    return figure


def top_figure(results: Results, column: str) -> Figure:
    """Top-1 and top-5 accuracy."""
    values: Values = {}
    for row in results.rows:
        figures = [results.cells[row, column].figure(measure) for measure in ("accuracy", "top5")]
        values[row] = [found.mean if found else None for found in figures]
    figure, axes = _figure(f"{results.title}, {column}", 2, len(values))
    axes.set(xlabel="accuracy (%)", xlim=(0, 109), xticks=range(0, 101, 20))
    _bars(figure, axes, ["top-1", "top-5"], values, "{:.1f}", 0.0)
    return figure


def _figure(title: str, bars: int, rows: int) -> tuple[Figure, Axes]:
    """An empty figure, high enough for these rows of bars."""
    figure = Figure(figsize=(6.4, 1.2 + rows * (0.08 + 0.14 * bars)), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title, loc="left")
    return figure, axes


def _bars(figure: Figure, axes: Axes, names: Sequence[str], values: Values, form: str, start: float) -> None:
    """A group for each row, and in it a bar for each name with its value, or "missing"."""
    height = 0.84 / len(names)
    for at, (name, style) in enumerate(row_styles(names).items()):
        y = np.arange(len(values)) + (at - (len(names) - 1) / 2) * height
        lengths = [max(row[at] or start, start) - start for row in values.values()]
        bars = axes.barh(y, lengths, height * 0.94, left=start, label=name, color=style.colour, hatch=style.hatch)
        for bar, row in zip(bars, values.values(), strict=True):
            bar.set(edgecolor="white", linewidth=0)
            text = "missing" if row[at] is None else form.format(row[at])
            end = (bar.get_x() + bar.get_width(), bar.get_y() + bar.get_height() / 2)
            axes.annotate(text, end, (3, 0), textcoords="offset points", va="center", fontsize=7)
    axes.set_yticks(range(len(values)), list(values))
    axes.set_ylim(len(values) - 0.45, -0.55)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    if len(names) > 1:
        figure.legend(loc="outside upper right", ncols=len(names))
