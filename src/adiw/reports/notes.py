"""The notes under the tables: what the figures mean, their provenance, and what is excluded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from adiw.reports.grid import NONE
from adiw.reports.results import Record, Results
from adiw.reports.times import engine, sources

DIFFERENCE = "Diff.: ours - paper."
NOT_RUN = f"Not run yet ({NONE}): "
BOLD = (
    "Bold (* in text): the best row, and rows that a paired t-test over trial means does not distinguish from it at "
    "the 1% level. The test needs two trials in common, and with few trials seldom finds a difference. Shorter runs "
    "and the true weights (oracle) are not compared."
)


def of_accuracy(results: Results) -> list[str]:
    """The notes of the accuracy table."""
    judged = _names(trial.record.get("judged_on") for trial in results.trials) or "nothing yet"
    records = [*(trial.record for trial in results.trials), *results.timing.values()]
    rest = [*_not_in_means(results), *_made_with(records)]
    if results.planned is None:
        return [
            f"Mean over seeds (standard deviation), of {results.used_epochs}; evaluated on: {judged}.",
            *rest,
        ]
    length = "" if results.epochs is None else f" of {results.epochs} epochs"
    plan = f"{counted(results.planned, 'trial')}{length} planned; evaluated on: {judged}."
    seconds = f" Seconds per epoch: training only, {_alone(results)}, without the first epoch."
    return [
        f"Ours: mean (standard deviation) over {results.used_epochs} of all finished trials, "
        f"{plan}{seconds if results.timing else ''} {DIFFERENCE}",
        BOLD,
        *_not_run(results),
        *rest,
        *_about_recipe(results),
    ]


def of_time(results: Results) -> list[str]:
    """The notes of the time table."""
    records = [record for place in results.cells for record in sources(results, *place)]
    text = "Seconds of training per epoch, without the first epoch."
    if results.timing:
        text += f" Measured {_alone(results)}; a time that cannot be compared with these has its reason beside it."
    return [
        f"{text} The paper used other hardware: compare ratios rather than seconds. {DIFFERENCE}",
        f"Computed on: {'; '.join(dict.fromkeys(engine(record) for record in records)) or 'nothing yet'}.",
        *_not_run(results),
        *_made_with(records),
        *_about_recipe(results),
    ]


def deviation(entry: Mapping[str, Any]) -> str:
    """A setting that differs from the paper's."""
    rows = "all rows" if entry["rows"] == "all" else ", ".join(entry["rows"])
    chosen = entry["chosen"].rstrip(".")
    return f"{entry['setting']} of {rows} is {entry['ours']} (paper: {entry['paper']}). Chosen: {chosen}."


def counted(number: int, thing: str) -> str:
    return f"{number} {thing}" + ("" if number == 1 else "s")


def _alone(results: Results) -> str:
    epochs = _names(counted(record["epochs"], "epoch") for record in results.timing.values())
    return f"alone on the device over {epochs}"


def _not_run(results: Results) -> list[str]:
    """The cells without any trial, by column."""
    rows = results.rows
    empty = {column: [row for row in rows if not results.cells[row, column].trials] for column in results.columns}
    texts = [
        f"{c} ({'all rows' if missing == rows else ', '.join(missing)})" for c, missing in empty.items() if missing
    ]
    return [f"{NOT_RUN}{'; '.join(texts)}."] if texts else []


def _not_in_means(results: Results) -> list[str]:
    """Trials that did not finish, with their reasons, and records that belong to no cell."""
    ended = [
        f"{cell.row}, {cell.column}, trial {trial.number}: {trial.status}, {trial.reason or 'no reason recorded'}"
        for cell in results.cells.values()
        for trial in cell.trials
        if trial.status != "done"
    ]
    notes = [f"Not in the means: {'; '.join(ended)}."] if ended else []
    unplaced = [f"Records without a cell in this recipe: {'; '.join(results.unplaced)}."] if results.unplaced else []
    return notes + unplaced


def _made_with(records: Iterable[Record]) -> list[str]:
    """Hardware, versions and commits of the records."""
    found = list(records)
    facts = {
        "Hardware": _names((record.get("hardware") or {}).get("device") for record in found),
        "PyTorch": _names((record.get("versions") or {}).get("torch") for record in found),
        "commit": _names(record.get("commit") for record in found),
    }
    text = "; ".join(f"{name}: {value}" for name, value in facts.items() if value)
    return [f"{text}."] if text else []


def _about_recipe(results: Results) -> list[str]:
    deviations = [f"Deviation: {deviation(entry)}" for entry in results.recipe["deviations"]]
    named = f"Recipe {results.recipe['name']}. {results.recipe['about']}"
    given = ", ".join(f"{key} = {value}" for key, value in results.recipe["changes"].items())
    return [named, *deviations, *([f"Set on the command line: {given}."] if given else [])]


def _names(values: Iterable[str | None]) -> str:
    """The different values, in order of first appearance."""
    return ", ".join(dict.fromkeys(str(value) for value in values if value))
