"""The divergences side by side: a line for each shift of each recorded sweep that compares them."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from adiw.reports.grid import Box, Grid, Head
from adiw.reports.sweeps import Cell, Sweep, read_sweep

# What a user writes -> the method's name in records; the divergences, between no weights and the true ones.
DIVERGENCES = {"kl": "adiw-kl", "mmd": "adiw-km", "squared": "adiw-ls", "wasserstein": "adiw-wa"}
COLUMNS = {"no weights": "uniform", **DIVERGENCES, "true weights": "oracle"}
TEST = "test set"


class Line(NamedTuple):
    """What a line of the table is about."""

    sweep: str
    data: str
    shift: str
    judged_on: str
    epochs: int


def divergence_table(results: Path) -> Grid:
    """Accuracy of every divergence under every shift that at least two of them were trained on.

    ``results`` holds a folder for each sweep. A sweep that is judged on the test set shows each method's first row,
    the others the best of its settings: choosing is what a selection split is for.
    """
    folders = sorted(file.parent for file in results.glob("*/results.jsonl"))
    rows = [
        [Box(_about(line)), Box(_trials(cells)), *(Box(_figure(cells.get(method))) for method in COLUMNS.values())]
        for folder in folders
        for line, cells in lines_of(read_sweep(folder)).items()
        if len(cells.keys() & set(DIVERGENCES.values())) > 1
    ]
    head = [Head("data, shift (recipe)"), Head("trials"), *map(Head, COLUMNS)]
    return Grid("Accuracy (%) by divergence", head, rows, NOTES)


NOTES = (
    "Mean (standard deviation) over the last ten epochs of all finished trials.",
    "Judged on the test set: the first row that the recipe has for the method. On a selection split: the best of its "
    "settings there, so that these figures are a little too high for all.",
)


def lines_of(sweep: Sweep) -> dict[Line, dict[str, Cell]]:
    """For each data set, shift and judge: the cell that stands for each method of the table."""
    found: dict[Line, dict[str, list[Cell]]] = defaultdict(lambda: defaultdict(list))
    for cell in sweep.cells.values():
        if cell.done and cell.done[0].record["settings"]["method"] in COLUMNS.values():
            record = cell.done[0].record
            settings, judge = record["settings"], record["judged_on"]
            line = Line(sweep.recipe["name"], settings["dataset"], settings["shift"], judge, max(cell.epochs))
            found[line][settings["method"]].append(cell)
    return {line: {method: _standing(line, cells) for method, cells in of.items()} for line, of in found.items()}


def _standing(line: Line, cells: list[Cell]) -> Cell:
    return cells[0] if line.judged_on == TEST else max(cells, key=lambda cell: (cell.figure("accuracy") or (0,))[0])


def _about(line: Line) -> str:
    judge = "" if line.judged_on == TEST else f", {line.judged_on}"
    return f"{line.data}, {line.shift} ({line.sweep}, {line.epochs} epochs{judge})"


def _trials(cells: dict[str, Cell]) -> str:
    counts = sorted({len(cell.done) for cell in cells.values()})
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _figure(cell: Cell | None) -> str:
    figure = None if cell is None else cell.figure("accuracy")
    return "-" if figure is None else f"{figure[0]:.2f} ({figure[1]:.2f})"
