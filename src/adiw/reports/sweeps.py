"""Reading the folder of a sweep: what was planned, what was run, and what became of it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from adiw.experiments.sealed import read_json, read_lines

LAST = 10  # epochs of each trial that a figure is made from, as in the paper
Line = dict[str, Any]


@dataclass(frozen=True)
class Trial:
    """One run that ended: "done", "dead" (with the reason) or "failed"."""

    number: int
    status: str
    reason: str | None
    epochs: int
    record: Line  # the whole line of results.jsonl

    def curve(self, measure: str) -> list[float]:
        """The measure after each epoch; empty where it was not kept."""
        curve: list[float] = (self.record.get("curves") or {}).get(measure) or []
        return curve

    def last(self, measure: str) -> list[float]:
        """Its values in the last ten epochs; of a record without curves, their mean alone."""
        curve = self.curve(measure)[-LAST:]
        mean = self.record.get(measure)
        return curve or ([] if mean is None else [float(mean)])


@dataclass(frozen=True)
class Cell:
    """A row in a column: the trials that ended, and the numbers of those that are missing."""

    row: str
    column: str
    trials: tuple[Trial, ...]
    missing: tuple[int, ...]

    @property
    def done(self) -> list[Trial]:
        return [trial for trial in self.trials if trial.status == "done"]

    def count(self, status: str) -> int:
        return len(self.missing) if status == "missing" else sum(trial.status == status for trial in self.trials)

    @property
    def epochs(self) -> list[int]:
        """The different lengths of its finished trials."""
        return sorted({trial.epochs for trial in self.done})

    def means(self, measure: str) -> dict[int, float]:
        """Trial number -> mean over the last ten epochs, of the finished trials that have the measure."""
        return {trial.number: statistics.fmean(trial.last(measure)) for trial in self.done if trial.last(measure)}

    def figure(self, measure: str) -> tuple[float, float] | None:
        """(mean, standard deviation) of the last ten epochs of all finished trials, pooled; None without any."""
        values = [value for trial in self.done for value in trial.last(measure)]
        return (statistics.fmean(values), statistics.pstdev(values)) if values else None


@dataclass(frozen=True)
class Sweep:
    """A recipe (see recipe.json), its cells, and the times that were measured alone on the device."""

    recipe: dict[str, Any]
    cells: dict[tuple[str, str], Cell]
    timing: dict[tuple[str, str], Line]
    strangers: tuple[str, ...]  # rows and columns of results that the recipe does not have

    @property
    def rows(self) -> list[str]:
        return [row["label"] for row in self.recipe["rows"]]

    @property
    def columns(self) -> list[str]:
        return [column["label"] for column in self.recipe["columns"]]

    @property
    def measures(self) -> list[str]:
        return list(self.recipe["measures"])

    @property
    def epochs(self) -> int | None:
        """The planned length of a run."""
        epochs: int | None = self.recipe["common"].get("epochs")
        return epochs

    def method(self, row: str) -> str:
        """The method of a row, such as "adiw-kl"."""
        settings = next(entry["settings"] for entry in self.recipe["rows"] if entry["label"] == row)
        return str(settings.get("method", self.recipe["common"].get("method", "")))

    def paper(self, measure: str, row: str, column: str) -> Any:
        """The paper's figure: [mean, std], or seconds; None where it has none."""
        figures = self.recipe["paper"].get(measure, {}).get(row)
        return None if figures is None else figures[self.columns.index(column)]

    def trials(self) -> list[Trial]:
        """All trials that ended, row by row."""
        return [trial for cell in self.cells.values() for trial in cell.trials]


def read_sweep(folder: Path) -> Sweep:
    """The sweep in a folder with recipe.json, results.jsonl and timing.jsonl; the last two may be missing."""
    file = folder / "recipe.json"
    if not file.exists():
        raise FileNotFoundError(f"no sweep found in {folder}: a sweep's folder holds a recipe.json")
    recipe = read_json(file)
    places = [(row["label"], column["label"]) for row in recipe["rows"] for column in recipe["columns"]]
    results = read_lines(folder / "results.jsonl")
    kept = _kept(results)
    cells = {place: _cell(place, kept.get(place, {}), recipe["trials"]) for place in places}
    timing = {(line["row"], line["column"]): line for line in read_lines(folder / "timing.jsonl")}
    return Sweep(recipe, cells, timing, tuple(sorted({f"{r}, {c}" for r, c in kept.keys() - set(places)})))


def _kept(results: Iterable[Line]) -> dict[tuple[str, str], dict[int, Line]]:
    """The line that counts for each place and trial: the first that is done, or else the last."""
    kept: dict[tuple[str, str], dict[int, Line]] = {}
    for line in results:
        place = kept.setdefault((line["row"], line["column"]), {})
        if place.get(line["trial"], {}).get("status") != "done":
            place[line["trial"]] = line
    return kept


def _cell(place: tuple[str, str], lines: Mapping[int, Line], planned: int) -> Cell:
    trials = tuple(
        Trial(number, line["status"], line.get("reason"), line.get("epochs") or 0, line)
        for number, line in sorted(lines.items())
    )
    return Cell(*place, trials, tuple(number for number in range(planned) if number not in lines))
