"""The table of the divergences: a line for each shift of each recorded sweep that compares them."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from adiw.reports.folders import read_sweep
from adiw.reports.grid import Box, Grid, Head
from adiw.reports.results import Cell, Results
from adiw.reports.tables import mean_std

PREFIX = "adiw-"  # of the methods that match batches by a divergence
# Divergence -> its method in the records. The method of any other divergence is the prefix and its name.
PAPER = {"kl": "adiw-kl", "mmd": "adiw-km", "squared": "adiw-ls", "wasserstein": "adiw-wa"}
TEST = "test set"


class Line(NamedTuple):
    """The data and the shift of a line, and how its runs were evaluated."""

    sweep: str
    data: str
    shift: str
    judged_on: str
    epochs: int


def divergence_table(results: Path) -> Grid:
    """Accuracy of every divergence under every shift that at least two of them were trained on.

    ``results`` holds a folder for each sweep. Of a sweep that is evaluated on the test set, each method's first row
    is shown; of one that is evaluated on a selection split, the best of its rows.
    """
    folders = sorted(file.parent for file in results.glob("*/results.jsonl"))
    lines = [item for folder in folders for item in lines_of(read_sweep(folder)).items() if _compares(item[1])]
    columns = columns_of({method for _, cells in lines for method in cells})
    rows = [
        [Box(_about(line)), Box(_trials(cells)), *(Box(_accuracy(cells.get(method))) for method in columns.values())]
        for line, cells in lines
    ]
    head = [Head("data, shift (recipe)"), Head("trials"), *map(Head, columns)]
    return Grid("Accuracy (%) by divergence", head, rows, NOTES)


def columns_of(methods: set[str]) -> dict[str, str]:
    """The method of each column: without weights, the divergences, true weights."""
    others = sorted(method for method in methods if method.startswith(PREFIX) and method not in PAPER.values())
    divergences = {**PAPER, **{method.removeprefix(PREFIX): method for method in others}}
    return {"no weights": "uniform", **divergences, "true weights": "oracle"}


NOTES = (
    "Mean (standard deviation) over the last ten epochs of all finished trials.",
    "Evaluated on the test set: the first row that the recipe has for the method. On a selection split: the best of "
    "the method's settings there, which makes these figures slightly too high.",
)


def lines_of(sweep: Results) -> dict[Line, dict[str, Cell]]:
    """For each line the cell that is shown for each method."""
    found: dict[Line, dict[str, list[Cell]]] = defaultdict(lambda: defaultdict(list))
    for cell in sweep.cells.values():
        first = cell.done[0] if cell.done else None
        if first and (first.method in ("uniform", "oracle") or first.method.startswith(PREFIX)):
            data = first.settings["dataset"], first.settings["shift"], first.record["judged_on"]
            found[Line(sweep.recipe["name"], *data, max(cell.epochs))][first.method].append(cell)
    return {
        line: {method: _shown(line, cells) for method, cells in methods.items()} for line, methods in found.items()
    }


def _compares(cells: dict[str, Cell]) -> bool:
    return sum(method.startswith(PREFIX) for method in cells) > 1


def _shown(line: Line, cells: list[Cell]) -> Cell:
    return cells[0] if line.judged_on == TEST else max(cells, key=lambda cell: (cell.figure("accuracy") or (0,))[0])


def _about(line: Line) -> str:
    split = "" if line.judged_on == TEST else f", {line.judged_on}"
    return f"{line.data}, {line.shift} ({line.sweep}, {line.epochs} epochs{split})"


def _trials(cells: dict[str, Cell]) -> str:
    counts = sorted({len(cell.done) for cell in cells.values()})
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _accuracy(cell: Cell | None) -> str:
    return mean_std(None if cell is None else cell.figure("accuracy"))
