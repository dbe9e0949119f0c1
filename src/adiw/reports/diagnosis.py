"""The verdict, the alarms and the figures by class of each run, for a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from adiw.reports.results import Cell, Record, Results, Trial

MANY = 30  # classes or groups in a table; of more, those with the lowest accuracy are shown


def findings(results: Results) -> list[Record]:
    """The verdict (its sentence and comparison) and the alarms of every cell that has some, compared ones first.

    Of several runs, those that were not compared have no verdict: it would only say so.
    """
    found, several = [], len(results.cells) > 1
    for cell, trial in first_runs(results):
        verdict, alarms = trial.record.get("verdict") or {}, trial.record.get("alarms") or []
        compared = verdict.get("comparison") or []
        sentence = verdict.get("sentence") if compared or not several else None
        if sentence or alarms:
            found.append({**_place(cell), "sentence": sentence, "comparison": compared, "alarms": alarms})
    return sorted(found, key=lambda finding: not finding["comparison"])


def majority_rates(results: Results) -> dict[str, dict[str, Any]]:
    """Column -> the most frequent class of its test set and its rate in percent, where that was recorded."""
    found: dict[str, dict[str, Any]] = {}
    for cell, trial in first_runs(results):
        if (trial.record.get("predictions") or {}).get("majority"):
            found.setdefault(cell.column, trial.record["predictions"]["majority"])
    return found


def class_tables(results: Results) -> list[Record]:
    """The figures by class of every cell that has them, that of a compared run first; the first is open.

    They are those that ``adiw.experiments.diagnosis.class_statistics`` records, with ``lines`` of the classes, the
    number of classes that are ``hidden``, and the ``groups``.
    """
    found = [(cell, trial) for cell, trial in first_runs(results) if trial.record.get("predictions")]
    found.sort(key=lambda place: not is_compared(place[1]))
    return [{**_place(cell), "opened": k == 0, **_by_class(trial)} for k, (cell, trial) in enumerate(found)]


def is_compared(trial: Trial) -> bool:
    """Whether this is a run that others were compared with, by ``adiw run --compare``."""
    return bool((trial.record.get("verdict") or {}).get("comparison"))


def _place(cell: Cell) -> Record:
    return {"row": cell.row, "column": cell.column}


def _by_class(trial: Trial) -> Record:
    figures, groups = trial.record["predictions"], trial.record.get("groups") or {}
    weights = {row["name"]: row for row in groups.get("classes") or []}
    keys = ("test_samples", "accuracy", "predicted_share", "trusted_share", "train_share")
    columns = zip(figures["classes"], *(figures[key] for key in keys), strict=True)
    lines = [dict(zip(("name", *keys), line, strict=True)) for line in columns]
    lines = [line | {key: weights.get(line["name"], {}).get(key) for key in ("mean_weight", "ess")} for line in lines]
    if len(lines) > MANY:
        lines.sort(key=lambda line: 101 if line["accuracy"] is None else line["accuracy"])
    hidden, shown = max(0, len(lines) - MANY), (groups.get("groups") or [])[:MANY]
    return {**figures, "lines": lines[:MANY], "hidden": hidden, "groups": shown}


def first_runs(results: Results) -> Iterator[tuple[Cell, Trial]]:
    """The first finished run of every cell, or its first one with a result."""
    for cell in results.cells.values():
        ended = cell.shown or [run for run in (*cell.whole, *cell.trials) if run.status == "dead"]
        if ended:
            yield cell, ended[0]
