"""The figures of a sweep: accuracy curves, times, weights, top-1 and top-5; each as PDF and PNG."""

from __future__ import annotations

import re
from pathlib import Path

from adiw.reports.bar_figures import time_figure, top_figure
from adiw.reports.curve_figures import curves_figure, has_curves
from adiw.reports.style import save, styled
from adiw.reports.sweeps import Sweep
from adiw.reports.times import own_seconds
from adiw.reports.weight_figures import weights_figure, weights_of


def write_figures(sweep: Sweep, folder: Path) -> list[Path]:
    """Every figure that there are records for, in a folder; returns the files.

    accuracy-SETTING, top5-SETTING, top-SETTING, weights-SETTING and time, each as .pdf and .png.
    """
    written = []
    with styled():
        for column in sweep.columns:
            name = re.sub(r"[^a-z0-9.]+", "-", column.lower()).strip("-")
            for measure in sweep.measures:
                if has_curves(sweep, column, measure):
                    written += save(curves_figure(sweep, column, measure), folder, f"{measure}-{name}")
            if "top5" in sweep.measures and any(sweep.cells[row, column].figure("top5") for row in sweep.rows):
                written += save(top_figure(sweep, column), folder, f"top-{name}")
            if weights_of(sweep, column):
                written += save(weights_figure(sweep, column), folder, f"weights-{name}")
        if any(own_seconds(sweep, row, column) for row in sweep.rows for column in sweep.columns):
            written += save(time_figure(sweep), folder, "time")
    return written
