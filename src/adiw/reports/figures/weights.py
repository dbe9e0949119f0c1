"""The weights of intact against mislabelled samples: a box plot and a histogram for each method."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from adiw.reports.figures.style import INTACT, MISLABELLED
from adiw.reports.results import Results

_STYLES = {
    "intact": (INTACT, "", "-"),
    "mislabelled": (MISLABELLED, "////", "--"),
    "all": ("#56B4E9", "", "-"),
}


def weights_of(results: Results, column: str) -> dict[str, dict[str, Any]]:
    """Row -> the weights of its first finished trial; rows whose weights are all equal are excluded."""
    found = {}
    for row in results.rows:
        first = next((trial.weights for trial in results.cells[row, column].done if trial.weights), None)
        if first and any(group["box"][0] != group["box"][-1] for group in first["groups"].values()):
            found[row] = first
    return found


def weights_figure(results: Results, column: str) -> Figure:
    """For each method a box plot (quartiles; whiskers at 5% and 95%) above a histogram of each group's weights."""
    weights = weights_of(results, column)
    figure = Figure(figsize=(max(3.6, 1.0 + 1.75 * len(weights)), 4.6), layout="constrained")
    top: list[Axes] = []
    low: list[Axes] = []
    for at, (row, found) in enumerate(weights.items()):
        above = figure.add_subplot(2, len(weights), at + 1, sharey=top[0] if top else None)
        below = figure.add_subplot(2, len(weights), len(weights) + at + 1, sharey=low[0] if low else None)
        _boxes(above, found["groups"])
        _histogram(below, found)
        above.set_title(row)
        for axes in (above, below) if at else ():
            axes.tick_params(labelleft=False)
        top.append(above)
        low.append(below)
    top[0].set_ylabel("weight")
    top[0].set_ylim(
        0, 1.05 * max(group["box"][-1] for found in weights.values() for group in found["groups"].values())
    )
    low[0].set(ylabel="share of the group", yscale="log", ylim=(1e-4, 1.5))
    figure.suptitle(f"{results.title}, {column}: weights of the first finished trial", fontsize=10)
    names = [name for name in _STYLES if any(name in found["groups"] for found in weights.values())]
    keys = [
        Patch(facecolor=_STYLES[name][0], hatch=_STYLES[name][1], edgecolor="black", label=name) for name in names
    ]
    figure.legend(handles=keys, loc="outside lower center", ncols=len(keys), handlelength=3)
    return figure


def _boxes(axes: Axes, groups: dict[str, dict[str, Any]]) -> None:
    keys = ("whislo", "q1", "med", "q3", "whishi")
    stats = [dict(zip(keys, group["box"], strict=True)) for group in groups.values()]
    drawn = axes.bxp(
        stats, showfliers=False, patch_artist=True, widths=0.6, medianprops={"color": "black", "linewidth": 1.4}
    )
    for patch, name in zip(drawn["boxes"], groups, strict=True):
        colour, hatch, _ = _STYLES[name]
        patch.set(facecolor=colour, hatch=hatch, edgecolor="black", linewidth=0.8)
    axes.set_xticks([])
    axes.grid(visible=False, axis="x")


def _histogram(axes: Axes, found: dict[str, Any]) -> None:
    """Shares in the bins; the last bin also counts larger weights."""
    edges = np.array(found["edges"])
    for name, group in found["groups"].items():
        colour, hatch, line = _STYLES[name]
        shares = np.array(group["histogram"]) / max(group["count"], 1)
        axes.stairs(shares, edges, baseline=1e-9, fill=True, color=colour, alpha=0.35, hatch=hatch, linewidth=0)
        axes.stairs(shares, edges, baseline=1e-9, color=colour, linewidth=1.2, linestyle=line)
    axes.set(xlabel="weight", xlim=(edges[0], edges[-1]))
