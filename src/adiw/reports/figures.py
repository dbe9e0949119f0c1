"""The figures of a sweep, each as PDF and PNG: accuracy curves, weights, and times."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from adiw.experiments.run_record import LAST
from adiw.reports.charts import curve_of
from adiw.reports.results import Results
from adiw.reports.times import seconds_alone

# Okabe and Ito's palette for colour-blind readers, without its yellow (too light on white) and with a grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
DASHES: tuple[tuple[float, ...], ...] = ((), (5, 2), (1.5, 1.5), (7, 2, 1.5, 2), (3, 1.5, 1, 1.5, 1, 1.5))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "h")
INTACT, MISLABELLED = "#E69F00", "#009E73"  # orange and green, as in the paper
GROUPS = {"intact": INTACT, "mislabelled": MISLABELLED, "all": "#56B4E9"}
LABELS = {"accuracy": "accuracy (%)", "top5": "top-5 accuracy (%)"}
_SETTINGS: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so it is the same everywhere
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E5E5E5",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # embed text as text
    "figure.dpi": 100,
    "savefig.dpi": 160,
    "svg.hashsalt": "adiw",
}


class RowStyle(NamedTuple):
    """The line of a row; no two of the first forty rows share colour and dashes, or dashes and marker."""

    colour: str
    dashes: tuple[float, ...]
    marker: str


def row_styles(rows: Sequence[str]) -> dict[str, RowStyle]:
    """The style of each row by its position, so that a row has the same style in all figures of a sweep."""
    cycles = (COLOURS, DASHES, MARKERS)
    return {row: RowStyle(*(cycle[at % len(cycle)] for cycle in cycles)) for at, row in enumerate(rows)}  # type: ignore[arg-type]


@contextmanager
def styled() -> Iterator[None]:
    """Draw with these settings of matplotlib instead of the user's, which are restored afterwards."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        yield


def write_figures(results: Results, folder: Path) -> list[Path]:
    """Write accuracy-COLUMN, top5-COLUMN, weights-COLUMN and time where there are records; returns the files."""
    written = []
    with styled():
        for column in results.columns:
            name = re.sub(r"[^a-z0-9.]+", "-", column.lower()).strip("-")
            for measure in results.measures:
                if any(curve_of(results.cells[row, column], measure)["mean"] for row in results.rows):
                    written += save(curves_figure(results, column, measure), folder, f"{measure}-{name}")
            if any(results.cells[row, column].weights for row in results.rows):
                written += save(weights_figure(results, column), folder, f"weights-{name}")
        if any(seconds_alone(results, *place) for place in results.cells):
            written += save(time_figure(results), folder, "time")
    return written


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write the figure as PDF and PNG without date or version, so that the bytes are the same every time."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{name}.pdf", folder / f"{name}.png"]
    figure.savefig(files[0], metadata={"CreationDate": None, "Creator": None, "Producer": None})
    figure.savefig(files[1], metadata={"Software": None})
    return files


def curves_figure(results: Results, column: str, measure: str = "accuracy") -> Figure:
    """The mean of the finished trials with a band from lowest to highest; a cross where another trial ended."""
    figure = Figure(figsize=(7.2, 4.0), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(f"{results.title}, {column}", loc="left")
    axes.set(xlabel="epoch", ylabel=LABELS[measure])
    for at, (row, style) in enumerate(row_styles(results.rows).items()):
        cell = results.cells[row, column]
        curve, end = curve_of(cell, measure), cell.figure(measure)
        if curve["mean"] and end is not None:
            epochs, every = range(1, len(curve["mean"]) + 1), max(1, len(curve["mean"]) // 10)
            label = f"{row}  {end.mean:.1f}"
            (line,) = axes.plot(epochs, _numbers(curve["mean"]), color=style.colour, linewidth=1.2, label=label)
            start = int(at / len(results.rows) * every)  # so that markers of different rows do not overlap
            line.set(dashes=style.dashes, marker=style.marker, markersize=4, markevery=(start, every))
            if "low" in curve:
                band = _numbers(curve["low"]), _numbers(curve["high"])
                axes.fill_between(epochs, *band, color=style.colour, alpha=0.12, linewidth=0)
        for other in curve.get("others", ()):
            values = _numbers(other["values"])
            (line,) = axes.plot(range(1, len(values) + 1), values, color=style.colour, linewidth=0.6)
            line.set(dashes=style.dashes, marker="x", markersize=7, markevery=[len(values) - 1])
    figure.legend(loc="outside right upper", handlelength=4, title=f"mean of the last {LAST}")
    return figure


def _numbers(curve: Sequence[float | None]) -> np.ndarray:
    """A curve for matplotlib, with NaN for None."""
    return np.array(curve, np.float64)


def time_figure(results: Results) -> Figure:
    """Seconds per epoch on a logarithmic scale, of runs that were alone on the device: a bar for each column."""
    rows, columns = results.rows, results.columns
    figure = Figure(figsize=(6.4, 1.2 + len(rows) * (0.08 + 0.14 * len(columns))), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(f"{results.title}: training time", loc="left")
    height = 0.84 / len(columns)
    for at, (column, style) in enumerate(row_styles(columns).items()):
        values = [seconds_alone(results, row, column) for row in rows]
        y = np.arange(len(rows)) + (at - (len(columns) - 1) / 2) * height
        bars = axes.barh(y, [value or 0 for value in values], height * 0.94, label=column, color=style.colour)
        texts = ["" if value is None else f"{value:.3g}" for value in values]
        axes.bar_label(bars, texts, padding=3, fontsize=7)
    axes.set(xlabel="seconds per epoch (logarithmic)", xscale="log", ylim=(len(rows) - 0.45, -0.55))
    axes.margins(x=0.1)
    axes.set_yticks(range(len(rows)), rows)
    if len(columns) > 1:
        figure.legend(loc="outside upper right", ncols=len(columns))
    return figure


def weights_figure(results: Results, column: str) -> Figure:
    """For each method a box plot (quartiles; whiskers at 5% and 95%) above a histogram of each group's weights."""
    weights = {row: found for row in results.rows if (found := results.cells[row, column].weights)}
    figure = Figure(figsize=(max(3.6, 1.0 + 1.75 * len(weights)), 4.6), layout="constrained")
    above, below = figure.subplots(2, len(weights), sharey="row", squeeze=False)
    for boxes, histogram, (row, found) in zip(above, below, weights.items(), strict=True):
        boxes.set_title(row)
        _boxes(boxes, found["groups"])
        for name, group in found["groups"].items():  # the last bin also counts larger weights
            shares = np.array(group["histogram"]) / max(group["count"], 1)
            histogram.stairs(
                shares, found["edges"], baseline=1e-9, fill=True, color=GROUPS[name], alpha=0.5, label=name
            )
        histogram.set(xlabel="weight", xlim=(found["edges"][0], found["edges"][-1]))
    above[0].set(ylabel="weight", ylim=(0, None))
    below[0].set(ylabel="share of the group", yscale="log", ylim=(1e-4, 1.5))
    figure.suptitle(f"{results.title}, {column}: weights of the first finished trial", fontsize=10)
    handles, names = below[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), handlelength=3)
    return figure


def _boxes(axes: Axes, groups: dict[str, dict[str, Any]]) -> None:
    keys = ("whislo", "q1", "med", "q3", "whishi")
    stats = [dict(zip(keys, group["box"], strict=True)) for group in groups.values()]
    drawn = axes.bxp(stats, showfliers=False, patch_artist=True, widths=0.6, medianprops={"color": "black"})
    for patch, name in zip(drawn["boxes"], groups, strict=True):
        patch.set(facecolor=GROUPS[name])
    axes.set_xticks([])
