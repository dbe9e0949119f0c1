"""Tables of the pages on the paper's results, drawn in Markdown from the folder of a sweep or of a profile."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from adiw.reports.folders import read_sweep
from adiw.reports.grid import NONE, Box, Grid, to_markdown
from adiw.reports.notes import NOT_RUN
from adiw.reports.tables import accuracy_table, time_table
from paper.profiler.recipe import load
from paper.profiler.table import recorded_stages
from paper.readings import readings_table


def results_table(folder: Path) -> str:
    """Accuracies beside the paper's, with notes on the plan, the hardware and the cells that have not been run."""
    table = _started(_without(accuracy_table(read_sweep(folder)), ["diff.", "s / epoch"]))
    recipe = json.loads((folder / "recipe.json").read_text())
    trials, common = recipe["trials"], recipe["common"]
    judge = "held-out training samples" if common.get("selection") else "the test set"
    plan = f"{trials} trial{'' if trials == 1 else 's'} of {common['epochs']} epochs, evaluated on {judge}."
    notes = [plan + _hardware(folder), *(note for note in table.notes if note.startswith(NOT_RUN))]
    return to_markdown(Grid(table.title, table.head, _without_counts(table), notes))


def times_table(folder: Path) -> str:
    """Seconds per epoch beside the paper's, of the columns that were timed."""
    table = _without(time_table(read_sweep(folder)), ["diff."])
    timed = {head.group for at, head in enumerate(table.head) if head.name == "ours" and _has_number(table, at)}
    table = _without(table, groups=[head.group for head in table.head if head.group and head.group not in timed])
    return to_markdown(Grid(table.title, table.head, table.rows, ["In brackets: the paper's ratio."]))


def deviations_table(folder: Path) -> str:
    """Every setting of a sweep that differs from the paper's, and what it was chosen by."""
    deviations = json.loads((folder / "recipe.json").read_text())["deviations"]
    lines = ["| setting | rows | paper | ours | chosen by |", "| --- | --- | --- | --- | --- |"]
    return "\n".join([*lines, *map(_deviation, deviations)]) + "\n"


def stages_table(folder: Path) -> str:
    """CPU and device time of every stage beside the paper's."""
    recipe = load(folder.name)
    return "\n".join(map(to_markdown, recorded_stages(folder, recipe.title, recipe.paper)))


# The kinds of tables, as the pages name them.
DRAWN: dict[str, Callable[[Path], str]] = {
    "results": results_table,
    "times": times_table,
    "deviations": deviations_table,
    "stages": stages_table,
    "readings": readings_table,
}


def _without_counts(table: Grid) -> list[list[Box]]:
    """The rows without the counts of missing trials: "1 of 3 trials" says the same."""
    return [[Box(re.sub(r", \d+ missing", "", box.text), box.bold) for box in row] for row in table.rows]


def _hardware(folder: Path) -> str:
    """The devices of the runs, the most frequent first, and the rows of the others."""
    file, rows = folder / "results.jsonl", defaultdict(list)
    for line in map(json.loads, file.read_text().splitlines() if file.exists() else ()):
        if line["status"] == "done":
            rows[line["hardware"]["device"]].append(line["row"])
    first, *others = sorted(rows, key=lambda device: -len(rows[device])) or [""]
    rest = "".join(f"; {device}: {', '.join(dict.fromkeys(rows[device]))}" for device in others)
    return f" Hardware: {first}{rest}." if first else ""


def _without(table: Grid, names: Sequence[str] = (), groups: Sequence[str] = ()) -> Grid:
    """The table without the columns of these names or groups."""
    kept = [at for at, head in enumerate(table.head) if head.name not in names and head.group not in groups]
    rows = [[row[at] for at in kept] for row in table.rows]
    return Grid(table.title, [table.head[at] for at in kept], rows, table.notes)


def _started(table: Grid) -> Grid:
    """The table without the rows and columns of which nothing has been run; all of it if nothing has been run."""
    ours = [at for at, head in enumerate(table.head) if at and head.name in ("ours", "")]
    rows = [row for row in table.rows if any(row[at].text != NONE for at in ours)]
    empty = [table.head[at].group for at in ours if all(row[at].text == NONE for row in rows)]
    return _without(Grid(table.title, table.head, rows, table.notes), groups=empty) if rows else table


def _has_number(table: Grid, at: int) -> bool:
    """Whether a column has a time that was measured alone; otherwise a remark follows the number."""
    return any(re.fullmatch(r"[\d.]+", row[at].text) for row in table.rows)


def _deviation(deviation: Mapping[str, Any]) -> str:
    rows = "all" if deviation["rows"] == "all" else ", ".join(deviation["rows"])
    cells = (f"`{deviation['setting']}`", rows, deviation["paper"], deviation["ours"], deviation["chosen"])
    return f"| {' | '.join(map(str, cells))} |"
