"""The tables of results: accuracy and time, our figures beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from adiw.reports import notes
from adiw.reports.best_rows import best_rows
from adiw.reports.grid import NONE, Box, Grid, Head, write_grid
from adiw.reports.results import Cell, MeanStd, Results
from adiw.reports.times import engines, seconds_alone

NAMES = {"accuracy": "top-1", "top5": "top-5"}
FIGURES = (
    *("row", "column", "measure", "ours", "std", "trials", "dead", "failed", "missing"),
    *("paper", "paper_std", "difference", "best"),
)


def accuracy_table(results: Results) -> Grid:
    """A row for each method; for each column our figure, the paper's, and the difference. Bold is the best.

    Where the paper has no such table, only our figures are shown. A column that was timed also shows seconds. Runs
    without a sweep have no best row, but their number and their seconds.
    """
    measures, places = results.measures, results.cells
    names = ("ours", "paper", "diff.") if any(results.paper(m, *p) for m in measures for p in places) else ("",)
    best = {(column, m): best_of(results, column, m) for column in results.columns for m in measures}
    head, columns = [Head("")], [[Box(row) for row in results.rows]]
    for column in results.columns:
        cells = [results.cells[row, column] for row in results.rows]
        for measure in measures:
            group = column if len(measures) == 1 else f"{column}, {NAMES[measure]}"
            head += [Head(name, group) for name in names]
            boxes = [_accuracy(results, cell, measure, cell.row in best[column, measure]) for cell in cells]
            columns += list(map(list, zip(*boxes, strict=True)))[: len(names)]
        if results.planned is None:
            head.append(Head("trials", column))
            columns.append([Box(str(len(cell.done))) for cell in cells])
        seconds = [_seconds(results, cell) for cell in cells]
        if any(seconds):
            head.append(Head("s / epoch", column))
            columns.append([Box(text or NONE) for text in seconds])
    rows = list(zip(*columns, strict=True))
    return Grid(f"{results.title}: accuracy (%)", head, rows, notes.of_accuracy(results))


def time_table(results: Results) -> Grid:
    """Seconds per epoch: ours, the paper's, the difference, and the ratio to the row with uniform weights."""
    base = next((row for row in results.rows if results.method(row) == "uniform"), None)
    names = ("ours", "paper", "diff.", *([f"/ {base} (paper's)"] if base else []))
    head = [Head(""), *(Head(name, column) for column in results.columns for name in names)]
    rows = [[row, *(text for c in results.columns for text in _time(results, row, c, base))] for row in results.rows]
    return Grid(
        f"{results.title}: seconds per epoch", head, [list(map(Box, row)) for row in rows], notes.of_time(results)
    )


def figures_table(results: Results, measures: Sequence[str]) -> Grid:
    """Everything as plain columns for other programs, a line for each row, column and measure.

    ``difference`` is ours - paper. For "seconds", ``trials`` counts the runs that were timed.
    """
    places = [(measure, column, row) for measure in measures for column in results.columns for row in results.rows]
    rows = [list(map(Box, _figures(results, row, column, measure))) for measure, column, row in places]
    return Grid(results.title, [Head(name) for name in FIGURES], rows)


def write_tables(results: Results, folder: Path) -> list[Path]:
    """accuracy and time as .txt, .md, .tex and .csv in a folder; returns the files."""
    accuracy = write_grid(accuracy_table(results), folder, "accuracy", figures_table(results, results.measures))
    return accuracy + write_grid(time_table(results), folder, "time", figures_table(results, ["seconds"]))


def best_of(results: Results, column: str, measure: str) -> set[str]:
    """The best of the rows with the most epochs; the oracle, which has the true weights, is not compared."""
    if results.planned is None or measure == "seconds":
        return set()
    cells = [results.cells[row, column] for row in results.rows if results.method(row) != "oracle"]
    longest = max((max(cell.epochs, default=0) for cell in cells), default=0)
    return best_rows({cell.row: cell.means(measure) for cell in cells if cell.epochs == [longest]})


def mean_std(figure: MeanStd | None) -> str:
    """
    >>> mean_std(MeanStd(88.704, 0.119)), mean_std(MeanStd(60.0)), mean_std(None)
    ('88.70 (0.12)', '60.00', '–')
    """
    if figure is None:
        return NONE
    return f"{figure.mean:.2f}" if figure.std is None else f"{figure.mean:.2f} ({figure.std:.2f})"


def _accuracy(results: Results, cell: Cell, measure: str, bold: bool) -> list[Box]:
    ours, paper = cell.figure(measure), results.paper(measure, cell.row, cell.column)
    incomplete = _incomplete(cell, results.epochs)
    shown = [mean_std(ours)] if ours or not incomplete else []
    text = "; ".join([*shown, *filter(None, [incomplete])])
    return [Box(text, bold), Box(mean_std(paper)), Box(_difference(ours and ours.mean, paper))]


def _incomplete(cell: Cell, planned_epochs: int | None) -> str:
    """Trials that did not finish and another number of epochs than planned; empty for a cell without any trial."""
    if not cell.trials:
        return ""
    parts = [f"{len(cell.done)} of {len(cell.trials) + len(cell.missing)} trials, {cell.note}"] if cell.note else []
    if cell.epochs and planned_epochs and cell.epochs != [planned_epochs]:
        parts.append(f"{' and '.join(map(str, cell.epochs))} epochs")
    return ", ".join(parts)


def _seconds(results: Results, cell: Cell) -> str:
    """The seconds beside the accuracy; empty where they were not measured, or have a table of their own."""
    place = cell.row, cell.column
    if results.planned is not None and place not in results.timing:
        return ""
    seconds = seconds_alone(results, *place)
    return "" if seconds is None else f"{seconds:.3f}"


def _time(results: Results, row: str, column: str, base: str | None) -> list[str]:
    """The texts of a cell of the time table; seconds that cannot be compared have the reason beside them."""
    alone, cell = seconds_alone(results, row, column), results.cells[row, column]
    ours, paper = NONE if alone is None else f"{alone:.3f}", results.paper("seconds", row, column)
    if alone is None and cell.seconds is not None:
        how = " and ".join(sorted(engines(results, row, column)))
        ours = f"{cell.seconds:.3f}; {f'{cell.side_by_side} side by side' if cell.side_by_side > 1 else how}"
    found = [ours, NONE if paper is None else f"{paper.mean:.2f}", _difference(alone, paper)]
    return [*found, _ratios(results, row, column, base)] if base else found


def _ratios(results: Results, row: str, column: str, base: str) -> str:
    """ "1.45 (2.72)": our time over that of the base row with the same engine, and the paper's ratio."""
    ours, one = (seconds_alone(results, label, column) for label in (row, base))
    if engines(results, row, column) != engines(results, base, column):
        ours = None
    paper, paper_one = (results.paper("seconds", label, column) for label in (row, base))
    known = f" ({paper.mean / paper_one.mean:.2f})" if paper and paper_one else ""
    return (f"{ours / one:.2f}" if ours and one else NONE) + known


def _figures(results: Results, row: str, column: str, measure: str) -> list[str]:
    cell, paper = results.cells[row, column], results.paper(measure, row, column)
    ours, trials = cell.figure(measure), len(cell.done)
    if measure == "seconds":
        seconds, trials = seconds_alone(results, row, column), 1 if (row, column) in results.timing else trials
        ours = None if seconds is None else MeanStd(seconds)
    numbers = [*(paper or (None, None)), ours.mean - paper.mean if ours and paper else None]
    texts = ["" if value is None else f"{value:.4f}" for value in (*(ours or (None, None)), *numbers)]
    counts = [str(count) for count in (trials, *map(cell.count, ("dead", "failed", "missing")))]
    best = str(int(row in best_of(results, column, measure)))
    return [row, column, measure, *texts[:2], *counts, *texts[2:], best]


def _difference(ours: float | None, paper: MeanStd | None) -> str:
    return NONE if ours is None or paper is None else f"{ours - paper.mean:+.2f}"
