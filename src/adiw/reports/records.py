"""The page of a sweep: its recipe and the records of its runs. The runs' own folders may be elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from adiw.experiments.sealed import read_json, read_lines
from adiw.reports.page_model import Page, Trial
from adiw.reports.results import load_results
from adiw.reports.run_pages import in_words, run_page

LAST = 10  # epochs that the reported figures are the mean of, as in the paper
Record = dict[str, Any]


def load_page(folder: Path) -> Page:
    """What there is to show of a sweep's folder, a run's, or one that holds runs."""
    if is_sweep(folder):
        try:
            return sweep_page(folder)
        except (KeyError, TypeError) as error:
            raise ValueError(f"{folder}: its recipe.json or a line of its records has no {error}") from error
    if (folder / "results.jsonl").exists():
        raise FileNotFoundError(f"{folder} has results.jsonl but no recipe.json, which says what was planned")
    return run_page(load_results(folder))


def is_sweep(folder: Path) -> bool:
    """Whether a sweep has been started in this folder."""
    return (folder / "recipe.json").exists()


def sweep_page(folder: Path) -> Page:
    """The page of a sweep: rows, columns and trials as its recipe plans them."""
    recipe = read_json(folder / "recipe.json")
    rows, columns = ([entry["label"] for entry in recipe[key]] for key in ("rows", "columns"))
    known = [r for r in read_lines(folder / "results.jsonl") if r["row"] in rows and r["column"] in columns]
    records = kept(known)
    timing = read_lines(folder / "timing.jsonl")
    return Page(
        title=recipe.get("title") or recipe["name"],
        about=recipe.get("about", ""),
        rows=rows,
        columns=columns,
        trials=[_trial(record, recipe["measures"], folder) for record in records],
        measures=recipe["measures"],
        planned=recipe["trials"],
        pooled=True,
        paper=recipe.get("paper", {}),
        timed={(t["row"], t["column"]): t["seconds_per_epoch"] for t in timing},
        changes=changes(recipe),
        facts=_facts(recipe, records),
    )


def changes(recipe: Record) -> str:
    """A sentence that names the settings of the command that are not the recipe's; empty where there are none.

    >>> rows = [{"label": "L2R", "settings": {"epochs": 4}}]
    >>> changes({"common": {"epochs": 60}, "changes": {"epochs": 60}, "rows": [], "columns": []})
    ''
    >>> changes({"common": {"epochs": 60}, "changes": {"epochs": 60}, "rows": rows, "columns": []})
    'Not as in the recipe: epochs = 60.'
    """
    common, entries = recipe.get("common", {}), (*recipe["rows"], *recipe["columns"])
    changed = [
        f"{key} = {value}"
        for key, value in recipe.get("changes", {}).items()
        if common.get(key) != value or any(entry["settings"].get(key, value) != value for entry in entries)
    ]
    return f"Not as in the recipe: {', '.join(changed)}." if changed else ""


def kept(records: Iterable[Record]) -> list[Record]:
    """One record for each row, column and trial: the first that is done, or else the last.

    >>> lines = [{"row": "a", "column": "b", "trial": 0, "status": s} for s in ("failed", "done", "dead")]
    >>> [record["status"] for record in kept(lines)]
    ['done']
    """
    found: dict[tuple[str, str, int], Record] = {}
    for record in records:
        key = (record["row"], record["column"], record["trial"])
        if key not in found or found[key]["status"] != "done":
            found[key] = record
    return [found[key] for key in sorted(found, key=lambda key: key[2])]


def _trial(record: Record, measures: Iterable[str], root: Path) -> Trial:
    curves = {name: list(values) for name, values in (record.get("curves") or {}).items()}
    folder = root / record["folder"] if record.get("folder") else None
    return Trial(
        row=record["row"],
        column=record["column"],
        status=record["status"],
        reason=record.get("reason"),
        values={measure: last for measure in measures if (last := _last(record, curves, measure))},
        seconds=record.get("seconds_per_epoch"),
        curves=curves,
        weights=record.get("weights"),
        folder=folder if folder is not None and folder.is_dir() else None,
    )


def _last(record: Record, curves: dict[str, Any], measure: str) -> list[float]:
    """The measure after the last ten epochs, or their mean where the record has no curve."""
    if curves.get(measure):
        return [value for value in curves[measure][-LAST:] if value is not None and math.isfinite(value)]
    return [record[measure]] if record.get(measure) is not None else []


def _facts(recipe: Record, records: list[Record]) -> list[tuple[str, str]]:
    facts = [("recipe", recipe["name"]), ("trials", str(recipe["trials"]))]
    facts += [(key, str(value)) for key, value in recipe.get("common", {}).items()]
    for deviation in recipe.get("deviations", []):
        rows = deviation["rows"] if isinstance(deviation["rows"], str) else ", ".join(deviation["rows"])
        text = f"{deviation['ours']} instead of {deviation['paper']} ({rows}): {deviation['chosen']}"
        facts.append((f"deviation: {deviation['setting']}", text))
    for key in ("judged_on", "versions", "hardware", "commit"):
        found = dict.fromkeys(in_words(record[key]) for record in records if record.get(key))
        facts += [(key.replace("_", " "), "; ".join(found))] if found else []
    together = max((record.get("side_by_side") or 1 for record in records), default=1)
    if together > 1:
        facts.append(("runs side by side", str(together)))
    return facts
