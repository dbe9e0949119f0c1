"""The verdict, the alarms and the figures by class of each run, for a page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from adiw.reports.results import Cell, Results, Trial

MANY = 30  # classes or groups in a table; of more, those with the lowest accuracy are shown


@dataclass(frozen=True)
class Finding:
    """The verdict and the alarms of a run; ``row`` and ``column`` name its cell."""

    row: str
    column: str
    sentence: str | None
    comparison: list[dict[str, Any]]
    alarms: list[dict[str, Any]]


@dataclass(frozen=True)
class ClassTable:
    """The figures by class of a run: a line for each class, and the confusion matrix where it was kept."""

    row: str
    column: str
    lines: list[dict[str, Any]]
    hidden: int  # classes that are not in ``lines``
    groups: list[dict[str, Any]]  # by a column of the data, where one was named
    classes: list[str]
    matrix: list[list[int]] | None
    confusions: list[dict[str, Any]]
    opened: bool


def findings(results: Results) -> list[Finding]:
    """The findings of every cell that has some, those with a comparison first.

    Of several runs, those that were not compared have no verdict: it would only say so.
    """
    found, several = [], len(results.cells) > 1
    for cell, trial in first_runs(results):
        verdict, alarms = trial.record.get("verdict") or {}, trial.record.get("alarms") or []
        compared = verdict.get("comparison") or []
        sentence = verdict.get("sentence") if compared or not several else None
        if sentence or alarms:
            found.append(Finding(cell.row, cell.column, sentence, compared, alarms))
    return sorted(found, key=lambda finding: not finding.comparison)


def majority_rates(results: Results) -> dict[str, dict[str, Any]]:
    """Column -> the most frequent class of its test set and its rate in percent, where that was recorded."""
    found: dict[str, dict[str, Any]] = {}
    for cell, trial in first_runs(results):
        if (trial.record.get("predictions") or {}).get("majority"):
            found.setdefault(cell.column, trial.record["predictions"]["majority"])
    return found


def class_tables(results: Results) -> list[ClassTable]:
    """The figures by class of every cell that has them, that of a compared run first; the first is open."""
    found = [(cell, trial) for cell, trial in first_runs(results) if trial.record.get("predictions")]
    found.sort(key=lambda place: not is_compared(place[1]))
    return [_class_table(*place, opened=number == 0) for number, place in enumerate(found)]


def is_compared(trial: Trial) -> bool:
    """Whether this is a run that others were compared with, by ``adiw run --compare``."""
    return bool((trial.record.get("verdict") or {}).get("comparison"))


def _class_table(cell: Cell, trial: Trial, opened: bool) -> ClassTable:
    figures, groups = trial.record["predictions"], trial.record.get("groups") or {}
    weights = {row["name"]: row for row in groups.get("classes") or []}
    keys = ("test_samples", "accuracy", "predicted_share", "trusted_share", "train_share")
    columns = zip(figures["classes"], *(figures[key] for key in keys), strict=True)
    lines = [dict(zip(("name", *keys), line, strict=True)) for line in columns]
    lines = [line | {key: weights.get(line["name"], {}).get(key) for key in ("mean_weight", "ess")} for line in lines]
    if len(lines) > MANY:
        lines.sort(key=lambda line: 101 if line["accuracy"] is None else line["accuracy"])
    return ClassTable(
        row=cell.row,
        column=cell.column,
        lines=lines[:MANY],
        hidden=max(0, len(lines) - MANY),
        groups=(groups.get("groups") or [])[:MANY],
        classes=figures["classes"],
        matrix=figures["confusion"],
        confusions=figures["confusions"],
        opened=opened,
    )


def first_runs(results: Results) -> Iterator[tuple[Cell, Trial]]:
    """The first finished run of every cell, or its first one with a result."""
    for cell in results.cells.values():
        ended = cell.shown or [run for run in (*cell.whole, *cell.trials) if run.status == "dead"]
        if ended:
            yield cell, ended[0]
