"""What a page shows, whichever kind of folder it was read from: rows (methods) by columns (settings) by trials."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Curve = list[float | None]  # a value for each epoch; None where it was not a number


@dataclass(frozen=True)
class Trial:
    """One run in its cell."""

    row: str
    column: str
    status: str  # "done", "dead", "failed" or "unfinished"
    reason: str | None
    values: dict[str, list[float]]  # measure -> what the cell's mean and std are taken over
    seconds: float | None  # per epoch
    curves: dict[str, Curve]
    weights: dict[str, Any] | None  # edges, and the groups' histograms, as results.jsonl has them
    folder: Path | None  # where its files are, if they are there


@dataclass(frozen=True)
class Cell:
    """The figure of a row in a column, and what a reader must know beside it."""

    mean: float | None
    std: float | None
    note: str  # what is dead, failed, unfinished or missing; empty when all is done
    paper: float | None = None
    paper_std: float | None = None

    @property
    def difference(self) -> float | None:
        """Ours less the paper's."""
        return None if self.mean is None or self.paper is None else self.mean - self.paper


@dataclass(frozen=True)
class Page:
    """All that is known of a folder.

    planned: trials of each cell; None where nobody planned them.
    pooled: the std is over all values (epochs x trials) rather than between the trials' means.
    paper: measure -> row -> for each column a figure, (mean, std), or None.
    timed: (row, column) -> seconds per epoch, measured alone on the device.
    changes: a sentence that names the settings that are not the recipe's; empty where there are none.
    facts: (name, text) pairs for the end of the page: settings, versions, hardware.
    """

    title: str
    about: str
    rows: Sequence[str]
    columns: Sequence[str]
    trials: Sequence[Trial]
    measures: Sequence[str] = ("accuracy",)
    planned: int | None = None
    pooled: bool = False
    paper: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    timed: dict[tuple[str, str], float] = field(default_factory=dict)
    changes: str = ""
    facts: Sequence[tuple[str, str]] = ()

    def of(self, row: str, column: str) -> list[Trial]:
        """The trials of a cell."""
        return [trial for trial in self.trials if (trial.row, trial.column) == (row, column)]

    def cell(self, row: str, column: str, measure: str) -> Cell:
        """Mean and std of the finished trials; the others are counted."""
        trials = self.of(row, column)
        values = [v for trial in trials if trial.status == "done" for v in trial.values.get(measure, [])]
        mean = statistics.fmean(values) if values else None
        return Cell(mean, self._std(values), self.note(trials), *self._papers(measure, row, column))

    def seconds(self, row: str, column: str) -> Cell:
        """Seconds per epoch beside the paper's: measured alone in a sweep, the mean of the runs otherwise."""
        found: list[float] = []
        if self.planned is None:
            done = [trial for trial in self.of(row, column) if trial.status == "done"]
            found = [trial.seconds for trial in done if trial.seconds is not None]
        elif (row, column) in self.timed:
            found = [self.timed[row, column]]
        return Cell(statistics.fmean(found) if found else None, None, "", *self._papers("seconds", row, column))

    def note(self, trials: Sequence[Trial]) -> str:
        """What did not finish, in words."""
        kinds = {kind: sum(trial.status == kind for trial in trials) for kind in ("dead", "failed", "unfinished")}
        kinds["missing"] = max((self.planned or 0) - len(trials), 0)
        return ", ".join(f"{count} {kind}" for kind, count in kinds.items() if count)

    def _std(self, values: list[float]) -> float | None:
        if len(values) < 2:
            return None
        return statistics.pstdev(values) if self.pooled else statistics.stdev(values)

    def _papers(self, measure: str, row: str, column: str) -> tuple[float | None, float | None]:
        """The paper's (figure, std) for a cell."""
        figures = self.paper.get(measure, {}).get(row, [])
        place = list(self.columns).index(column)
        figure = figures[place] if place < len(figures) else None
        if isinstance(figure, (list, tuple)):
            mean, std = (*figure, None)[:2]
            return mean, std
        return (None if figure is None else float(figure)), None
