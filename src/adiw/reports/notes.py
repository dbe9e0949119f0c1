"""What stands under a sweep's tables: what the figures are, how they were made, and what is not in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from adiw.reports.comparison import Best
from adiw.reports.records import changes
from adiw.reports.sweeps import LAST, Line, Sweep
from adiw.reports.times import sources, way


def of_accuracy(sweep: Sweep, best: Mapping[tuple[str, str], Best]) -> list[str]:
    """The notes of the accuracy table."""
    judged = _names(trial.record.get("judged_on") for trial in sweep.trials()) or "nothing yet"
    seconds = f" Seconds of training per epoch: {_alone(sweep)}, the first left out." if sweep.timing else ""
    plan = f"{_count(sweep.recipe['trials'], 'trial')} of {sweep.epochs} epochs planned"
    return [
        f"Ours: mean (standard deviation) over the last {LAST} epochs of all finished trials, {plan}; "
        f"judged on: {judged}.{seconds} Diff.: ours - paper.",
        _about_bold(sweep, best),
        *_ended_badly(sweep),
        *_made_by([*(trial.record for trial in sweep.trials()), *sweep.timing.values()]),
        *_about_recipe(sweep),
    ]


def of_time(sweep: Sweep) -> list[str]:
    """The notes of the time table."""
    lines = [line for cell in sweep.cells for line in sources(sweep, *cell)]
    text = "Seconds of training per epoch, the first epoch left out."
    if sweep.timing:
        text += f" Measured {_alone(sweep)}; times that are not comparable with these say why."
    return [
        text + " The paper's hardware was another: ratios compare better than seconds. Diff.: ours - paper.",
        f"Computed on: {'; '.join(dict.fromkeys(way(line) for line in lines)) or 'nothing yet'}.",
        *_made_by(lines),
        *_about_recipe(sweep),
    ]


def _alone(sweep: Sweep) -> str:
    return "alone on the device over " + _names(_count(line["epochs"], "epoch") for line in sweep.timing.values())


def _about_bold(sweep: Sweep, best: Mapping[tuple[str, str], Best]) -> str:
    """What bold means, and for each column where it is missing or incomplete: why."""
    many = len(sweep.measures) > 1
    whys = [
        f"{column}{f' ({measure})' if many else ''}: {found.why}"
        for (column, measure), found in best.items()
        if found.why
    ]
    if not any(found.rows for found in best.values()):
        reasons = {found.why for found in best.values()}
        return f"No bold: {reasons.pop() if len(reasons) == 1 else '; '.join(whys)}."
    text = "Bold (in text *): the best, and those not different by a paired t-test over trial means at the 1% level, "
    text += "which few trials seldom reach."
    oracles = [row for row in sweep.rows if sweep.method(row) == "oracle"]
    text += f" {oracles[0]} has the true weights and is not compared." if oracles else ""
    return text + (f" Not compared: {'; '.join(whys)}." if whys else "")


def _ended_badly(sweep: Sweep) -> list[str]:
    """The reasons of dead and failed trials, and results that stand in no cell."""
    lines = [
        f"{cell.row}, {cell.column}, trial {trial.number}: {trial.status}, {trial.reason or 'no reason kept'}"
        for cell in sweep.cells.values()
        for trial in cell.trials
        if trial.status != "done"
    ]
    notes = [f"Not in the means: {'; '.join(lines)}."] if lines else []
    return notes + ([f"In no cell of this recipe: {'; '.join(sweep.strangers)}."] if sweep.strangers else [])


def _made_by(records: Iterable[Line]) -> list[str]:
    """Hardware, versions and commits of the records."""
    found = list(records)
    hardware = _names((record.get("hardware") or {}).get("device") for record in found)
    torch = _names((record.get("versions") or {}).get("torch") for record in found)
    commits = _names(record.get("commit") for record in found)
    facts = {"Hardware": hardware, "PyTorch": torch, "commit": commits}
    text = "; ".join(f"{name}: {value}" for name, value in facts.items() if value)
    return [f"{text}."] if text else []


def _about_recipe(sweep: Sweep) -> list[str]:
    deviations = [_deviation(deviation) for deviation in sweep.recipe["deviations"]]
    named = f"Recipe {sweep.recipe['name']}. {sweep.recipe['about']}"
    return [named, *deviations, *filter(None, [changes(sweep.recipe)])]


def _deviation(deviation: Mapping[str, Any]) -> str:
    """A line that names a deviation from the paper.

    >>> _deviation({"setting": "lr", "rows": ["DIW"], "paper": 0.1, "ours": 0.05, "chosen": "on the selection split"})
    'Deviation: lr of DIW is 0.05 (paper: 0.1). Chosen: on the selection split.'
    """
    rows = "all rows" if deviation["rows"] == "all" else ", ".join(deviation["rows"])
    chosen = deviation["chosen"].rstrip(".")
    return f"Deviation: {deviation['setting']} of {rows} is {deviation['ours']} (paper: {deviation['paper']}). " + (
        f"Chosen: {chosen}."
    )


def _names(values: Iterable[str | None]) -> str:
    """The different ones, in the order that they came."""
    return ", ".join(dict.fromkeys(str(value) for value in values if value))


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" + ("" if number == 1 else "s")
