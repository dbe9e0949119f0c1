"""The figures of a sweep: accuracy curves, times, weights, top-1 and top-5; each as PDF and PNG."""

from __future__ import annotations

import re
from pathlib import Path

from adiw.reports.figures.bars import time_figure, top_figure
from adiw.reports.figures.curves import curves_figure, has_curves
from adiw.reports.figures.style import save, styled
from adiw.reports.figures.weights import weights_figure, weights_of
from adiw.reports.results import Results
from adiw.reports.times import seconds_alone


def write_figures(results: Results, folder: Path) -> list[Path]:
    """Write every figure that there are records for; returns the files.

    accuracy-COLUMN, top5-COLUMN, top-COLUMN, weights-COLUMN and time, each as .pdf and .png.
    """
    written = []
    with styled():
        for column in results.columns:
            name = re.sub(r"[^a-z0-9.]+", "-", column.lower()).strip("-")
            for measure in results.measures:
                if has_curves(results, column, measure):
                    written += save(curves_figure(results, column, measure), folder, f"{measure}-{name}")
            if "top5" in results.measures and any(results.cells[row, column].figure("top5") for row in results.rows):
                written += save(top_figure(results, column), folder, f"top-{name}")
            if weights_of(results, column):
                written += save(weights_figure(results, column), folder, f"weights-{name}")
        if any(seconds_alone(results, row, column) for row in results.rows for column in results.columns):
            written += save(time_figure(results), folder, "time")
    return written
