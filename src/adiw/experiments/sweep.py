"""The runs of a recipe: planned, run side by side, gone on with after a stop, and written down one by one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from adiw.experiments.outcome import outcome
from adiw.experiments.recipes import Entry, Recipe
from adiw.experiments.record import Folder, provenance
from adiw.experiments.run import Engine, Interrupted, in_turns, run
from adiw.experiments.settings import Settings, unknown
from adiw.experiments.watch import DeadRunError

RESULTS, TIMING = "results.jsonl", "timing.jsonl"
TIMED_EPOCHS = 4  # the first is left out


@dataclass(frozen=True)
class Planned:
    """One run of a recipe: its cell, its trial, its settings. Its folder is named by a digest of the settings."""

    row: str
    column: str
    trial: int
    settings: Settings

    @property
    def folder(self) -> str:
        text = json.dumps(self.settings.as_dict(), sort_keys=True)
        return f"runs/{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    @property
    def name(self) -> str:
        return f"{self.row}, {self.column}, trial {self.trial}"


@dataclass(frozen=True)
class Part:
    """Which part of a recipe to run; empty for all of it.

    Attributes:
        methods: rows, by label or method; shifts: columns, by label or shift.
        trials: how many, None for the recipe's; epochs: of each run, None for the recipe's.
        more: settings of all runs that go over the recipe's, such as the path of the data.
    """

    methods: tuple[str, ...] = ()
    shifts: tuple[str, ...] = ()
    trials: int | None = None
    epochs: int | None = None
    more: tuple[tuple[str, Any], ...] = ()


def plan(recipe: Recipe, part: Part = Part()) -> list[Planned]:  # noqa: B008 - frozen
    """The runs of this part of the recipe: all rows of all columns of the first trial, then of the second, ..."""
    rows = chosen(recipe.rows, part.methods, "method")
    columns = chosen(recipe.columns, part.shifts, "shift")
    epochs = {} if part.epochs is None else {"epochs": part.epochs}
    changed = replace(recipe, common={**recipe.common, **epochs, **dict(part.more)})
    return [
        Planned(row.label, column.label, trial, changed.settings(row, column, trial))
        for trial in range(recipe.trials if part.trials is None else part.trials)
        for column in columns
        for row in rows
    ]


def chosen(entries: Iterable[Entry], wanted: tuple[str, ...], setting: str) -> list[Entry]:
    """The rows or columns that are wanted, by label or by the value of ``setting``; all for none."""
    entries = list(entries)
    names = {entry.label: {entry.label.lower(), str(entry.settings.get(setting)).lower()} for entry in entries}
    for name in wanted:
        if not any(name.lower() in known for known in names.values()):
            raise unknown(setting, name, sorted(names))
    return [e for e in entries if not wanted or names[e.label] & {name.lower() for name in wanted}]


class Sweep:
    """A recipe's folder: what has ended there, and running the rest.

    Args:
        recipe, out: what to run, and where to. A folder of another recipe is refused.
        root: of the data sets.
        engine: how runs are computed.
        side_by_side: runs that share the device.
    """

    def __init__(self, recipe: Recipe, out: Path, root: Path | None, engine: Engine, side_by_side: int) -> None:
        self.recipe, self.folder, self.root, self.engine = recipe, Folder(out), root, engine
        self.side_by_side = side_by_side
        found = self.folder.read_json("recipe.json")
        if found is not None and found["name"] != recipe.name:
            raise ValueError(f"{out} holds the sweep {found['name']}: choose another folder with --out")
        self.folder.create()
        self.folder.write_json("recipe.json", recipe.as_dict())

    def ended(self, planned: Planned) -> str | None:
        """How this run ended: done or dead; None while it is to be run."""
        file = self.folder.path / planned.folder / "result.json"
        return str(json.loads(file.read_text())["status"]) if file.exists() else None

    def run(
        self,
        planned: Iterable[Planned],
        progress: Callable[[Planned, dict[str, Any]], None] = lambda planned, row: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Iterator[tuple[Planned, dict[str, Any]]]:
        """Run what has not ended, ``side_by_side`` at a time: each run with its record as it ends, to be noted.

        A run that dies or fails does not end the others.
        """
        noted = {(r["folder"], r["row"], r["column"]) for r in self.records() if r["status"] != "failed"}
        waiting = iter(list(planned))
        active: list[tuple[Planned, Iterator[None]]] = []
        while True:
            while len(active) < self.side_by_side and (job := next(waiting, None)) is not None:
                if self.ended(job) is None:
                    active.append((job, self._start(job, progress, stop)))
                elif (job.folder, job.row, job.column) not in noted:  # it ended, and then the power went
                    yield job, outcome(self.folder.path / job.folder)
            if not active:
                return
            for item in list(active):
                record = self._turn(*item)
                if record is not None:
                    active.remove(item)
                    yield item[0], record

    def _start(self, job: Planned, progress: Callable[..., None], stop: Callable[[], bool]) -> Iterator[None]:
        out = self.folder.path / job.folder
        begun = (out / "config.json").exists()
        return in_turns(job.settings, out, self.root, self.engine, begun, lambda row: progress(job, row), stop)

    def _turn(self, job: Planned, turns: Iterator[None]) -> dict[str, Any] | None:
        """Let a run go on to its next pause: None, or its record when it has ended."""
        out = self.folder.path / job.folder
        try:
            next(turns)
        except (StopIteration, DeadRunError):
            return outcome(out)
        except Interrupted:
            raise
        except Exception as error:  # whatever it was, the table says so and the other runs go on
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            settings = job.settings.as_dict()
            return {"status": "failed", "reason": reason, "settings": settings, **provenance(self.engine.where())}
        return None

    def note(self, job: Planned, record: dict[str, Any]) -> None:
        """Append the record to the results."""
        where = {"row": job.row, "column": job.column, "trial": job.trial, "folder": job.folder}
        self.folder.append_row(RESULTS, {**where, "side_by_side": self.side_by_side, **record})

    def records(self) -> list[dict[str, Any]]:
        """All records so far; lines that a crash has cut short are passed over."""
        file = self.folder.path / RESULTS
        return [record for line in file.read_text().splitlines() if (record := _read(line))] if file.exists() else []

    def time(self, planned: Iterable[Planned]) -> Iterator[Planned]:
        """Seconds per epoch of every cell, alone on the device, over a few epochs: each cell as it is noted."""
        for job in planned:
            short = replace(job, settings=replace(job.settings, epochs=TIMED_EPOCHS))
            out = self.folder.path / short.folder.replace("runs/", "timed/")
            if job.trial > 0 or (out / "result.json").exists():
                continue
            begun = (out / "config.json").exists()
            result = run(short.settings, out, self.root, self.engine, begun)
            kept = ("epochs", "seconds_per_epoch", "settings", "engine", "versions", "hardware", "commit")
            self.folder.append_row(TIMING, {"row": job.row, "column": job.column, **{k: result[k] for k in kept}})
            yield job


def _read(line: str) -> dict[str, Any] | None:
    try:
        return dict(json.loads(line))
    except ValueError:
        return None
