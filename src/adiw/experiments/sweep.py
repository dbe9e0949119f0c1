"""The runs of a recipe: which have ended, and each that has not begun, resumed and recorded."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from adiw.experiments.checked_io import read_json, read_lines
from adiw.experiments.dead_run import DeadRunError
from adiw.experiments.provenance import provenance
from adiw.experiments.recipes import Planned
from adiw.experiments.run import Interrupted, in_one_line, run
from adiw.experiments.run_folder import Folder, only_process
from adiw.experiments.run_record import run_record
from adiw.experiments.training_run import DEFAULT, Engine

RESULTS, TIMING = "results.jsonl", "timing.jsonl"
TIMED_EPOCHS = 4  # the first one is a warm-up
STOPPED = "stopped; the same command resumes"
OnRunEpoch = Callable[[Planned, dict[str, Any]], None]


class Sweep:
    """The runs in a sweep's folder: which have ended, and running the others.

    Args:
        folder: the folder with recipe.json, see ``adiw.experiments.resume.open_sweep``.
        root: folder of the data sets.
        engine: how runs are computed.
        processes: processes that share the machine, with a run each.
        time_limit: longest seconds of a run; a run that takes longer is recorded as failed.
    """

    def __init__(
        self,
        folder: Folder,
        root: Path | None = None,
        engine: Engine = DEFAULT,
        processes: int = 1,
        time_limit: float | None = None,
    ) -> None:
        self.folder, self.root, self.engine = folder, root, engine
        self.processes, self.time_limit = processes, time_limit

    def ended(self, job: Planned) -> str | None:
        """How this run ended: "done" or "dead"; None if it has not ended.

        Without the folder of the run, as in a clone of this repository, the records decide.
        """
        file = self.folder.path / job.folder / "result.json"
        if file.exists():
            return str(read_json(file)["status"])
        return self._recorded_at_first.get((job.row, job.column, job.trial))

    @cached_property
    def _recorded_at_first(self) -> dict[tuple[str, str, int], str]:
        return self._ended_trials()

    def _ended_trials(self) -> dict[tuple[str, str, int], str]:
        ended = [r for r in self.records(RESULTS) if r["status"] != "failed"]
        statuses = sorted(ended, key=lambda r: r["status"] == "done")  # "done" last: it overrides earlier records
        return {(r["row"], r["column"], r["trial"]): r["status"] for r in statuses}

    def run(
        self,
        planned: Iterable[Planned],
        progress: OnRunEpoch = lambda job, row: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Iterator[tuple[Planned, dict[str, Any]]]:
        """Run what has not ended, one after the other; yields each run with its record when it ends.

        A run that is dead or fails does not end the others. When ``stop`` returns true, the run in progress finishes
        its step and saves a checkpoint; then ``Interrupted`` is raised.
        """
        recorded = self._ended_trials()
        for job in planned:
            if stop():
                raise Interrupted(STOPPED)
            # A run that has ended without a record was killed before it was recorded.
            if self.ended(job) is None or (job.row, job.column, job.trial) not in recorded:
                yield job, self.compute(job, progress, stop)

    def compute(
        self,
        job: Planned,
        progress: OnRunEpoch = lambda job, row: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> dict[str, Any]:
        """The record of a run, which is begun or resumed, or only read if it has ended."""
        out, end = self.folder.path / job.folder, math.inf
        try:
            with only_process(out) as alone:
                while not alone():
                    if stop():
                        raise Interrupted(STOPPED)
                    time.sleep(0.1)
                if not (out / "result.json").exists():
                    progress(job, {"epoch": 0})
                    begun, end = (out / "config.json").exists(), time.monotonic() + (self.time_limit or math.inf)
                    on_epoch, enough = partial(progress, job), lambda: stop() or time.monotonic() >= end
                    run(job.settings, out, self.root, self.engine, begun, on_epoch, enough)
        except DeadRunError:
            pass
        except Interrupted:
            if self.time_limit is None or stop():
                raise Interrupted(STOPPED) from None
            reason = f"not finished within its time limit of {self.time_limit:g} s; the same command resumes it"
            return self.failed(job, reason)
        except Exception as error:  # the table reports it, and the other runs continue
            return self.failed(job, in_one_line(error))
        return run_record(out)

    def failed(self, job: Planned, reason: str) -> dict[str, Any]:
        """The record of a run that failed."""
        where = provenance(self.engine.resolve_device())
        return {"status": "failed", "reason": reason, "settings": job.settings.as_dict(), **where}

    def write_record(self, job: Planned, record: dict[str, Any]) -> None:
        where = {"row": job.row, "column": job.column, "trial": job.trial, "folder": job.folder}
        self.folder.append_row(RESULTS, {**where, **record, "side_by_side": self.processes})

    def records(self, name: str) -> list[dict[str, Any]]:
        return read_lines(self.folder.path / name)

    def write_sums(self) -> None:
        """Write the digests of the records, when all runs have ended: the files no longer grow."""
        self.folder.write_sums("recipe.json", RESULTS, TIMING)

    def time(
        self, planned: Iterable[Planned], stop: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[Planned, str | None]]:
        """Time every cell that has no time yet, alone on the device, over a few epochs.

        Yields each cell with None, or with the reason why it could not be timed.
        """
        timed = {(record["row"], record["column"]) for record in self.records(TIMING)}
        for job in planned:
            if job.trial > 0 or (job.row, job.column) in timed:
                continue
            try:
                result = self._timed(job, stop)
            except Interrupted:
                raise Interrupted(STOPPED) from None
            except Exception as error:  # the other cells are still timed
                yield job, in_one_line(error)
                continue
            kept = ("epochs", "seconds_per_epoch", "settings", "engine", "versions", "hardware", "commit")
            self.folder.append_row(TIMING, {"row": job.row, "column": job.column, **{k: result[k] for k in kept}})
            yield job, None

    def _timed(self, job: Planned, stop: Callable[[], bool]) -> dict[str, Any]:
        """A short run of this cell without interruption: files of an interrupted one are deleted."""
        short = replace(job, settings=replace(job.settings, epochs=TIMED_EPOCHS, steps=None))
        out = self.folder.path / short.folder.replace("runs/", "timed/")
        shutil.rmtree(out, ignore_errors=True)
        return run(short.settings, out, self.root, self.engine, stop=stop)
