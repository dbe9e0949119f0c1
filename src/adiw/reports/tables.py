"""The tables of a sweep: accuracy and time, our figures beside the paper's."""

from __future__ import annotations

from pathlib import Path

from adiw.reports import notes
from adiw.reports.comparison import Best, best_rows
from adiw.reports.grid import Box, Grid, Head, write_grid
from adiw.reports.sweeps import Cell, Sweep
from adiw.reports.times import own_seconds, time_box, uniform_row, ways_of

NAMES = {"accuracy": "top-1", "top5": "top-5"}
FIGURES = ("row", "column", "measure", "ours", "std", "trials", "dead", "failed", "missing")
PAPER = ("paper", "paper_std", "difference", "best")


def accuracy_table(sweep: Sweep) -> Grid:
    """A row for each method; for each setting our figure, the paper's, and the difference. Bold is the best.

    Where the paper has no such table, our figure stands alone. A setting that was timed shows the seconds too.
    """
    best = {(one, measure): best_of(sweep, one, measure) for one in sweep.columns for measure in sweep.measures}
    head, known, timed = [Head("")], _in_paper(sweep), {column for _, column in sweep.timing}
    for column in sweep.columns:
        for measure in sweep.measures:
            group = column if len(sweep.measures) == 1 else f"{column}, {NAMES[measure]}"
            head += [Head(name, group) for name in ("ours", "paper", "diff.")] if known else [Head("", group)]
        head += [Head("s / epoch", column)] if column in timed else []
    rows = []
    for row in sweep.rows:
        boxes = [Box(row)]
        for column in sweep.columns:
            for measure in sweep.measures:
                shown = _accuracy(sweep, sweep.cells[row, column], measure, row in best[column, measure].rows)
                boxes += shown if known else shown[:1]
            boxes += [_timed(sweep, row, column)] if column in timed else []
        rows.append(boxes)
    return Grid(f"{sweep.recipe['title']}: accuracy (%)", head, rows, notes.of_accuracy(sweep, best))


def brief_table(sweep: Sweep) -> Grid:
    """The accuracy table without differences; of its notes what the figures are, and what bold means."""
    whole = accuracy_table(sweep)
    kept = [place for place, head in enumerate(whole.head) if head.name != "diff."]
    rows = [[boxes[place] for place in kept] for boxes in whole.rows]
    figures, bold = whole.notes[:2]
    return Grid(
        whole.title,
        [whole.head[place] for place in kept],
        rows,
        [figures.removesuffix(" Diff.: ours - paper."), bold],
    )


def time_table(sweep: Sweep) -> Grid:
    """Seconds for an epoch: ours, the paper's, the difference, and the ratio to the row that weights nothing."""
    head, base = [Head("")], uniform_row(sweep)
    names = ("ours", "paper", "diff.", *([f"/ {base} (paper's)"] if base else []))
    for column in sweep.columns:
        head += [Head(name, column) for name in names]
    rows = []
    for row in sweep.rows:
        boxes = [Box(row)]
        for column in sweep.columns:
            ours, paper = own_seconds(sweep, row, column), sweep.paper("seconds", row, column)
            boxes += [time_box(sweep, row, column), Box(_plain(paper)), Box(_difference(ours, paper))]
            boxes += [Box(_ratios(sweep, row, column, base))] if base else []
        rows.append(boxes)
    return Grid(f"{sweep.recipe['title']}: seconds per epoch", head, rows, notes.of_time(sweep))


def figures_table(sweep: Sweep, measures: list[str]) -> Grid:
    """Everything as plain columns, a line for each row, column and measure, for other programs.

    ``difference`` is ours - paper. In "seconds", ``trials`` counts the runs that were timed.
    """
    rows = []
    for measure in measures:
        for column in sweep.columns:
            best = best_of(sweep, column, measure) if measure != "seconds" else Best(frozenset())
            rows += [_figures(sweep, row, column, measure, row in best.rows) for row in sweep.rows]
    return Grid(sweep.recipe["title"], [Head(name) for name in (*FIGURES, *PAPER)], rows)


def write_tables(sweep: Sweep, folder: Path) -> list[Path]:
    """accuracy and time as .txt, .md, .tex and .csv in a folder; returns the files."""
    accuracy = write_grid(accuracy_table(sweep), folder, "accuracy", figures_table(sweep, sweep.measures))
    return accuracy + write_grid(time_table(sweep), folder, "time", figures_table(sweep, ["seconds"]))


def best_of(sweep: Sweep, column: str, measure: str) -> Best:
    """The best rows among those that were trained as long as the longest; the truth does not compete."""
    cells = [sweep.cells[row, column] for row in sweep.rows if sweep.method(row) != "oracle"]
    longest = max((max(cell.epochs, default=0) for cell in cells), default=0)
    return best_rows({cell.row: cell.means(measure) for cell in cells if cell.epochs == [longest]})


def state(cell: Cell, planned_epochs: int | None) -> str:
    """What a reader must know besides the figure: trials that are not there, and another number of epochs.

    Empty when all planned trials are done as planned.
    """
    done, total = len(cell.done), len(cell.trials) + len(cell.missing)
    if not cell.trials:
        return "missing"
    parts = [f"{done} of {total} trials"] if done < total else []
    parts += [f"{cell.count(kind)} {kind}" for kind in ("dead", "failed", "missing") if cell.count(kind)]
    if cell.epochs and cell.epochs != [planned_epochs]:
        parts.append(f"{' and '.join(map(str, cell.epochs))} epochs")
    return ", ".join(parts)


def _in_paper(sweep: Sweep) -> bool:
    """Whether the paper has a figure for any cell."""
    cells = [(measure, *cell) for measure in sweep.measures for cell in sweep.cells]
    return any(sweep.paper(*cell) is not None for cell in cells)


def _accuracy(sweep: Sweep, cell: Cell, measure: str, bold: bool) -> list[Box]:
    figure, paper = cell.figure(measure), sweep.paper(measure, cell.row, cell.column)
    shown = [f"{figure[0]:.2f} ({figure[1]:.2f})"] if figure else []
    text = "; ".join([*shown, *filter(None, [state(cell, sweep.epochs)])])
    known = "-" if paper is None else f"{paper[0]:.2f} ({paper[1]:.2f})"
    return [
        Box(text or "not kept", bold),
        Box(known),
        Box(_difference(figure and figure[0], paper and paper[0])),
    ]


def _timed(sweep: Sweep, row: str, column: str) -> Box:
    line = sweep.timing.get((row, column))
    return Box("-" if line is None else f"{line['seconds_per_epoch']:.3f}")


def _figures(sweep: Sweep, row: str, column: str, measure: str, best: bool) -> list[Box]:
    cell, paper = sweep.cells[row, column], sweep.paper(measure, row, column)
    if measure == "seconds":
        ours, std, paper_std, trials = own_seconds(sweep, row, column), None, None, len(cell.done)
        trials = 1 if (row, column) in sweep.timing else trials
    else:
        figure = cell.figure(measure)
        ours, std = figure or (None, None)
        paper, paper_std = paper or (None, None)
        trials = len(cell.done)
    counts = [trials, *(cell.count(kind) for kind in ("dead", "failed", "missing"))]
    difference = None if ours is None or paper is None else ours - paper
    texts = [row, column, measure, _number(ours), _number(std), *map(str, counts)]
    texts += [_number(paper), _number(paper_std), _number(difference), str(int(best))]
    return [Box(text) for text in texts]


def _ratios(sweep: Sweep, row: str, column: str, base: str) -> str:
    """ "1.45 (2.72)": our time over that of the base row, computed in the same way, and the paper's."""
    ours, one = (own_seconds(sweep, label, column) for label in (row, base))
    if ways_of(sweep, row, column) != ways_of(sweep, base, column):
        ours = None
    paper, paper_one = (sweep.paper("seconds", label, column) for label in (row, base))
    known = f" ({paper / paper_one:.2f})" if paper and paper_one else ""
    return (f"{ours / one:.2f}" if ours and one else "-") + known


def _difference(ours: float | None, paper: float | None) -> str:
    return "-" if ours is None or paper is None else f"{ours - paper:+.2f}"


def _plain(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
