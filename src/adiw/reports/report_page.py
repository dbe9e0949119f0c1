"""The report: one self-contained HTML page for a run, several runs or a sweep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from adiw.reports.charts import chart_data
from adiw.reports.grid import NONE
from adiw.reports.notes import deviation
from adiw.reports.pictures import galleries
from adiw.reports.render_template import render
from adiw.reports.results import MeanStd, Results
from adiw.reports.summary import sentences
from adiw.reports.tables import mean_std
from adiw.reports.times import seconds_alone

NAMES = {"accuracy": "Accuracy", "top5": "Top-5 accuracy"}
# Charts of the weights over the epochs: title, curves, explanation.
WEIGHT_CHARTS = (
    ("Effective sample size", ("ess",), "The number of equally weighted samples that would be as informative."),
    ("Mean weight", ("weight_mean",), "A mean above one acts like a larger learning rate."),
    (
        "Mean weight of intact / mislabelled",
        ("weight_intact", "weight_mislabelled"),
        "Solid line and first number: intact. Dashed line and second number: mislabelled.",
    ),
)


def render_report(results: Results) -> str:
    """The page of these results."""
    data, pictures = chart_data(results), galleries(results)
    drawn = {name for cell in data["cells"] for name in cell["curves"]}
    begun = {cell["column"] for cell in data["cells"]}
    ends = [picture for gallery in pictures for end in gallery.ends.values() for picture in end]
    return render(
        "report.html",
        title=results.title,
        about=results.recipe["about"],
        summary=sentences(results),
        rows=results.rows,
        columns=results.columns,
        first=min(begun, default=0),
        tables=tables(results),
        measures={measure: NAMES.get(measure, measure) for measure in results.measures if measure in drawn},
        several_trials=len(results.trials) > len(results.cells),
        unfinished_trials=any(trial.status != "done" for trial in results.trials),
        weight_charts=[chart for chart in WEIGHT_CHARTS if drawn & set(chart[1])],
        galleries=pictures,
        truth_known=any(picture.true is not None for picture in ends),
        facts=facts(results),
        data=data,
    )


class Figure(NamedTuple):
    """The texts of a table's cell; absent ones are empty."""

    mean: str = ""
    std: str = ""
    paper: str = ""
    difference: str = ""
    note: str = ""


Rows = dict[str, list[Figure | str]]


@dataclass(frozen=True)
class Table:
    """A table of the page: the heads of its columns, and the cells of each row."""

    title: str
    text: str
    head: list[str]
    rows: Rows


def tables(results: Results) -> list[Table]:
    """A table for each measure, and one of the seconds per epoch, unless the first has a column of them."""
    found = [_measure(results, measure) for measure in results.measures]
    if len(results.columns) > 1 and _is_timed(results):
        rows: Rows = {row: [_seconds(results, row, column) for column in results.columns] for row in results.rows}
        alone = " Each run was alone on the device; the first epoch is excluded." if results.planned else ""
        found.append(Table("Seconds per epoch", f"Training only.{alone}", ["method", *results.columns], rows))
    return found


def _measure(results: Results, measure: str) -> Table:
    """With one column, the table also has the number of finished trials and the seconds per epoch."""
    name, heads = NAMES.get(measure, measure), results.columns
    figures = {place: _figure(results, *place, measure) for place in results.cells}
    rows: Rows = {row: [figures[row, column] for column in results.columns] for row in results.rows}
    if len(heads) == 1:
        (column,), timed = heads, _is_timed(results)
        heads = [f"{name.lower()} %", "trials"] + ["s / epoch"] * timed
        for row, cells in rows.items():
            cells += [str(len(results.cells[row, column].done)), *[_seconds(results, row, column)] * timed]
    return Table(name, _explanation(results, list(figures.values())), ["method", *heads], rows)


def _explanation(results: Results, cells: list[Figure]) -> str:
    if results.planned is not None:
        text = f"In percent: mean (std) over {results.used_epochs} of all finished trials."
    elif any(cell.std for cell in cells):
        text = f"In percent: mean over {results.used_epochs}, and in brackets the std between seeds."
    else:
        text = f"In percent: mean over {results.used_epochs}."
    text += " Below: the paper's figure, and ours - paper." * any(cell.paper for cell in cells)
    return text + f" {NONE}: not run yet." * any(not cell.trials for cell in results.cells.values())


def _figure(results: Results, row: str, column: str, measure: str) -> Figure:
    cell, paper = results.cells[row, column], results.paper(measure, row, column)
    ours = cell.figure(measure)
    return Figure(
        mean=f"{ours.mean:.2f}" if ours else "",
        std=f"{ours.std:.2f}" if ours and ours.std is not None else "",
        paper=_paper(paper),
        difference=f"{ours.mean - paper.mean:+.2f}" if ours and paper else "",
        note=cell.note if cell.trials else "",
    )


def _seconds(results: Results, row: str, column: str) -> Figure:
    """Without a difference from the paper, which used other hardware."""
    ours = seconds_alone(results, row, column)
    return Figure("" if ours is None else f"{ours:.3f}", paper=_paper(results.paper("seconds", row, column)))


def _paper(figure: MeanStd | None) -> str:
    return "" if figure is None else mean_std(figure)


def _is_timed(results: Results) -> bool:
    return any(seconds_alone(results, *place) is not None for place in results.cells)


def facts(results: Results) -> list[tuple[str, str]]:
    """(name, text) of the recipe, the settings that all runs share, and what the runs were made with."""
    recipe, records = results.recipe, [trial.record for trial in results.trials]
    found = [("recipe", recipe["name"]), ("trials", str(recipe["trials"]))] if recipe["name"] else []
    found += [(key, str(value)) for key, value in recipe["common"].items()]
    found += [(f"deviation: {entry['setting']}", deviation(entry)) for entry in recipe["deviations"]]
    for key in ("judged_on", "versions", "hardware", "commit"):
        different = dict.fromkeys(_words(record[key]) for record in records if record.get(key))
        found += [({"judged_on": "evaluated on"}.get(key, key), "; ".join(different))] if different else []
    shared = max((record.get("side_by_side") or 1 for record in records), default=1)
    return found + ([("runs side by side", str(shared))] if shared > 1 else [])


def _words(value: Any) -> str:
    """
    >>> _words({"torch": "2.9", "python": "3.12"})
    'torch 2.9, python 3.12'
    """
    return ", ".join(f"{key} {item}" for key, item in value.items()) if isinstance(value, dict) else str(value)
