"""The tables of a sweep: accuracy and time, our figures beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from adiw.reports import notes
from adiw.reports.comparison import Best, best_rows
from adiw.reports.grid import NONE, Box, Grid, Head, write_grid
from adiw.reports.results import Cell, MeanStd, Results
from adiw.reports.times import engines, seconds_alone, time_box, uniform_row

NAMES = {"accuracy": "top-1", "top5": "top-5"}
FIGURES = ("row", "column", "measure", "ours", "std", "trials", "dead", "failed", "missing")
PAPER = ("paper", "paper_std", "difference", "best")


def accuracy_table(results: Results) -> Grid:
    """A row for each method; for each column our figure, the paper's, and the difference. Bold is the best.

    Where the paper has no such table, only our figures are shown. A column that was timed also shows seconds.
    """
    in_paper, timed = bool(_papers(results)), {column for _, column in results.timing}
    best = {(column, m): best_of(results, column, m) for column in results.columns for m in results.measures}
    head = [Head("")]
    for column in results.columns:
        for measure in results.measures:
            group = column if len(results.measures) == 1 else f"{column}, {NAMES[measure]}"
            head += [Head(name, group) for name in ("ours", "paper", "diff.")] if in_paper else [Head("", group)]
        head += [Head("s / epoch", column)] if column in timed else []
    rows = []
    for row in results.rows:
        boxes = [Box(row)]
        for column in results.columns:
            for measure in results.measures:
                found = _accuracy(results, results.cells[row, column], measure, row in best[column, measure].rows)
                boxes += found if in_paper else found[:1]
            boxes += [_timed(results, row, column)] if column in timed else []
        rows.append(boxes)
    return Grid(f"{results.title}: accuracy (%)", head, rows, notes.of_accuracy(results, best))


def time_table(results: Results) -> Grid:
    """Seconds per epoch: ours, the paper's, the difference, and the ratio to the row with uniform weights."""
    head, base = [Head("")], uniform_row(results)
    names = ("ours", "paper", "diff.", *([f"/ {base} (paper's)"] if base else []))
    for column in results.columns:
        head += [Head(name, column) for name in names]
    rows = []
    for row in results.rows:
        boxes = [Box(row)]
        for column in results.columns:
            ours, paper = seconds_alone(results, row, column), results.paper("seconds", row, column)
            boxes += [time_box(results, row, column), Box(_plain(paper)), Box(_difference(ours, paper))]
            boxes += [Box(_ratios(results, row, column, base))] if base else []
        rows.append(boxes)
    return Grid(f"{results.title}: seconds per epoch", head, rows, notes.of_time(results))


def figures_table(results: Results, measures: Sequence[str]) -> Grid:
    """Everything as plain columns for other programs, a line for each row, column and measure.

    ``difference`` is ours - paper. For "seconds", ``trials`` counts the runs that were timed.
    """
    rows = []
    for measure in measures:
        for column in results.columns:
            best = best_of(results, column, measure) if measure != "seconds" else Best(frozenset())
            rows += [_figures(results, row, column, measure, row in best.rows) for row in results.rows]
    return Grid(results.title, [Head(name) for name in (*FIGURES, *PAPER)], rows)


def write_tables(results: Results, folder: Path) -> list[Path]:
    """accuracy and time as .txt, .md, .tex and .csv in a folder; returns the files."""
    accuracy = write_grid(accuracy_table(results), folder, "accuracy", figures_table(results, results.measures))
    return accuracy + write_grid(time_table(results), folder, "time", figures_table(results, ["seconds"]))


def best_of(results: Results, column: str, measure: str) -> Best:
    """The best of the rows with the most epochs; the oracle, which has the true weights, is not compared."""
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


def _papers(results: Results) -> list[MeanStd]:
    """The paper's figures for the measures of these cells."""
    found = [results.paper(measure, *place) for measure in results.measures for place in results.cells]
    return [figure for figure in found if figure is not None]


def _accuracy(results: Results, cell: Cell, measure: str, bold: bool) -> list[Box]:
    ours, paper = cell.figure(measure), results.paper(measure, cell.row, cell.column)
    incomplete = _incomplete(cell, results.epochs)
    shown = [mean_std(ours)] if ours or not incomplete else []
    return [
        Box("; ".join([*shown, incomplete] if incomplete else shown), bold),
        Box(mean_std(paper)),
        Box(_difference(ours and ours.mean, paper)),
    ]


def _incomplete(cell: Cell, planned_epochs: int | None) -> str:
    """Trials that did not finish and another number of epochs than planned; empty for a cell without any trial."""
    if not cell.trials:
        return ""
    parts = [f"{len(cell.done)} of {len(cell.trials) + len(cell.missing)} trials, {cell.note}"] if cell.note else []
    if cell.epochs and planned_epochs and cell.epochs != [planned_epochs]:
        parts.append(f"{' and '.join(map(str, cell.epochs))} epochs")
    return ", ".join(parts)


def _timed(results: Results, row: str, column: str) -> Box:
    record = results.timing.get((row, column))
    return Box(NONE if record is None else f"{record['seconds_per_epoch']:.3f}")


def _figures(results: Results, row: str, column: str, measure: str, best: bool) -> list[Box]:
    cell, paper = results.cells[row, column], results.paper(measure, row, column)
    trials = len(cell.done)
    if measure == "seconds":
        seconds, trials = seconds_alone(results, row, column), 1 if (row, column) in results.timing else trials
        ours = None if seconds is None else MeanStd(seconds)
    else:
        ours = cell.figure(measure)
    difference = None if ours is None or paper is None else ours.mean - paper.mean
    counts = [trials, *(cell.count(status) for status in ("dead", "failed", "missing"))]
    mean, std = ours or (None, None)
    numbers = [*(_number(value) for value in paper or (None, None)), _number(difference)]
    texts = [row, column, measure, _number(mean), _number(std), *map(str, counts), *numbers, str(int(best))]
    return [Box(text) for text in texts]


def _ratios(results: Results, row: str, column: str, base: str) -> str:
    """ "1.45 (2.72)": our time over that of the base row with the same engine, and the paper's ratio."""
    ours, one = (seconds_alone(results, label, column) for label in (row, base))
    if engines(results, row, column) != engines(results, base, column):
        ours = None
    paper, paper_one = (results.paper("seconds", label, column) for label in (row, base))
    known = f" ({paper.mean / paper_one.mean:.2f})" if paper and paper_one else ""
    return (f"{ours / one:.2f}" if ours and one else NONE) + known


def _difference(ours: float | None, paper: MeanStd | None) -> str:
    return NONE if ours is None or paper is None else f"{ours - paper.mean:+.2f}"


def _plain(figure: MeanStd | None) -> str:
    return NONE if figure is None else f"{figure.mean:.2f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
