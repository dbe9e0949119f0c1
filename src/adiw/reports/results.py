"""The results model: rows (methods) by columns (settings), and in each cell the trials that were run.

``adiw.reports.folders`` reads it from a sweep, a run, or a folder of runs. Tables, figures and pages read only this.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from adiw.experiments.run_record import LAST

Record = dict[str, Any]  # a line of results.jsonl; ``adiw.experiments.run_record`` makes the same from a run's folder
Curve = list[float | None]  # a value for each epoch, None where it was not finite


class MeanStd(NamedTuple):
    """A mean and its standard deviation, which is None for a single value."""

    mean: float
    std: float | None = None


@dataclass(frozen=True)
class Trial:
    """One run: its record, and the folder with its files where that exists."""

    record: Record
    number: int = 0
    folder: Path | None = None

    @property
    def status(self) -> str:
        """ "done", "dead" (with a reason), "failed" or "unfinished"."""
        return str(self.record["status"])

    @property
    def reason(self) -> str | None:
        return self.record.get("reason")

    @property
    def short_reason(self) -> str | None:
        """The reason without the message of an alarm, which a page shows above."""
        text = self.reason
        for alarm in self.record.get("alarms") or []:
            text = text and text.removesuffix(f": {alarm['message']}")
        return text

    @property
    def settings(self) -> dict[str, Any]:
        return self.record.get("settings") or {}

    @property
    def method(self) -> str:
        return str(self.settings["method"])

    @property
    def epochs(self) -> int:
        return self.record.get("epochs") or 0

    @property
    def seconds(self) -> float | None:
        """Seconds of training per epoch."""
        return self.record.get("seconds_per_epoch")

    @property
    def weights(self) -> dict[str, Any] | None:
        """The distribution of the last weights, as ``run_record.weight_distribution`` returns it."""
        return self.record.get("weights")

    @property
    def curves(self) -> dict[str, Curve]:
        return self.record.get("curves") or {}

    def last(self, measure: str) -> list[float]:
        """The finite values of the last ten epochs, or of the best epoch if the run kept that.

        Of a record without this curve, their mean alone.
        """
        if measure in self.record.get("best", {}):
            return [float(self.record["best"][measure])]
        if self.curves.get(measure):
            return [value for value in self.curves[measure][-LAST:] if value is not None and math.isfinite(value)]
        mean = self.record.get(measure)
        return [] if mean is None else [float(mean)]

    def mean(self, measure: str) -> float | None:
        """The mean over the last ten epochs: the recorded one, which is not rounded, or that of the curve."""
        recorded, last = self.record.get(measure), self.last(measure)
        return float(recorded) if recorded is not None else statistics.fmean(last) if last else None


@dataclass(frozen=True)
class Cell:
    """The trials of a row in a column. Means are over finished trials; the others are counted in ``note``.

    whole: runs whose folds, by ``adiw run --compare``, are the trials. They are shown, but are not part of the means.
    """

    row: str
    column: str
    trials: tuple[Trial, ...] = ()
    missing: tuple[int, ...] = ()  # numbers of planned trials without a record
    pooled: bool = True  # std over the last epochs of all trials, as in the paper; otherwise between trial means
    whole: tuple[Trial, ...] = ()

    @property
    def shown(self) -> list[Trial]:
        """The finished runs, of which the first represents the cell."""
        return [run for run in (*self.whole, *self.trials) if run.status == "done"]

    @property
    def done(self) -> list[Trial]:
        return [trial for trial in self.trials if trial.status == "done"]

    def count(self, status: str) -> int:
        return len(self.missing) if status == "missing" else sum(trial.status == status for trial in self.trials)

    @property
    def note(self) -> str:
        """What did not finish: "1 dead, 2 missing"; empty when every trial is done."""
        counts = {status: self.count(status) for status in ("dead", "failed", "unfinished", "missing")}
        return ", ".join(f"{count} {status}" for status, count in counts.items() if count)

    @property
    def epochs(self) -> list[int]:
        """The different lengths of the finished trials."""
        return sorted({trial.epochs for trial in self.done})

    @property
    def seconds(self) -> float | None:
        """Mean seconds per epoch of the finished trials."""
        known = [trial.seconds for trial in self.done if trial.seconds is not None]
        return statistics.fmean(known) if known else None

    @property
    def side_by_side(self) -> int:
        """The largest number of runs that shared the device with a finished trial; 1 when each ran alone."""
        return max((trial.record.get("side_by_side") or 1 for trial in self.done), default=1)

    @property
    def weights(self) -> dict[str, Any] | None:
        """The weights of the first finished run in which they fall into more than one bin; None without one."""
        for trial in self.shown:
            groups = trial.weights["groups"].values() if trial.weights else ()
            if len({k for group in groups for k, count in enumerate(group["histogram"]) if count}) > 1:
                return trial.weights
        return None

    def means(self, measure: str) -> dict[int, float]:
        """Trial number -> mean over its last ten epochs, for finished trials with this measure."""
        means = {trial.number: trial.mean(measure) for trial in self.done}
        return {number: mean for number, mean in means.items() if mean is not None}

    def figure(self, measure: str) -> MeanStd | None:
        """Mean and standard deviation over the finished trials; None without any."""
        if self.pooled:
            values = [value for trial in self.done for value in trial.last(measure)]
        else:
            values = list(self.means(measure).values())
        if len(values) < 2:
            return MeanStd(values[0]) if values else None
        return MeanStd(statistics.fmean(values), (statistics.pstdev if self.pooled else statistics.stdev)(values))


@dataclass(frozen=True)
class Results:
    """All cells, and the recipe that names their rows and columns.

    recipe: the content of recipe.json; for runs without a sweep one is made, whose ``trials`` is None.
    timing: (row, column) -> the record of a run that was timed alone on the device.
    unplaced: "row, column" of records that the recipe has no cell for.
    """

    recipe: dict[str, Any]
    cells: dict[tuple[str, str], Cell]
    timing: Mapping[tuple[str, str], Record] = field(default_factory=dict)
    unplaced: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return str(self.recipe["title"])

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
    def planned(self) -> int | None:
        """Trials of each cell; None where nothing was planned."""
        return self.recipe["trials"]  # type: ignore[no-any-return]

    @property
    def epochs(self) -> int | None:
        """The planned number of epochs."""
        return self.recipe["common"].get("epochs")  # type: ignore[no-any-return]

    @property
    def used_epochs(self) -> str:
        """The epochs that the figures of the trials are from, in words."""
        kept = {"best" in trial.record for trial in self.trials} or {False}
        names = {False: f"the last {LAST} epochs", True: "the best epoch on held-out trusted samples"}
        return " or ".join(names[best] for best in sorted(kept))

    @property
    def trials(self) -> list[Trial]:
        """All trials, cell by cell."""
        return [trial for cell in self.cells.values() for trial in cell.trials]

    def method(self, row: str) -> str:
        """The method of a row, such as "adiw-kl"."""
        settings = next(entry["settings"] for entry in self.recipe["rows"] if entry["label"] == row)
        return str(settings.get("method", self.recipe["common"].get("method", "")))

    def paper(self, measure: str, row: str, column: str) -> MeanStd | None:
        """The paper's figure; None where it has none."""
        figures, at = self.recipe["paper"].get(measure, {}).get(row) or [], self.columns.index(column)
        figure = figures[at] if at < len(figures) else None
        if figure is None:
            return None
        return MeanStd(*figure[:2]) if isinstance(figure, list) else MeanStd(float(figure))
