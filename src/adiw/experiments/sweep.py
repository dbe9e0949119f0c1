"""The runs of a recipe: run side by side, resumed after a stop, and recorded one by one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from adiw.experiments.checked_io import read_json, read_lines
from adiw.experiments.dead_run import DeadRunError
from adiw.experiments.plan import Planned
from adiw.experiments.provenance import provenance
from adiw.experiments.run import Engine, Interrupted, run, run_epochs
from adiw.experiments.run_folder import Folder
from adiw.experiments.run_record import run_record

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
        side_by_side: runs that share a process and its device.
        processes: processes, each with ``side_by_side`` runs.
    """

    def __init__(
        self, folder: Folder, root: Path | None, engine: Engine, side_by_side: int = 1, processes: int = 1
    ) -> None:
        self.folder, self.root, self.engine = folder, root, engine
        self.side_by_side, self.processes = side_by_side, processes

    def ended(self, job: Planned) -> str | None:
        """How this run ended: "done" or "dead"; None if it has not ended.

        Without the folder of the run, as in a clone of this repository, the records decide.
        """
        file = self.folder.path / job.folder / "result.json"
        if file.exists():
            return str(read_json(file)["status"])
        return self._recorded.get((job.row, job.column, job.trial))

    @cached_property
    def _recorded(self) -> dict[tuple[str, str, int], str]:
        """The status of each recorded trial when this sweep was opened."""
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
        """Run what has not ended, ``side_by_side`` at a time; yields each run with its record when it ends.

        A run that is dead or fails does not end the others. When ``stop`` returns true, every run in progress
        finishes its epoch and saves a checkpoint; then ``Interrupted`` is raised.
        """
        recorded = self._ended_trials()
        waiting, stopped = iter(planned), False
        active: list[tuple[Planned, Iterator[None]]] = []
        while True:
            while len(active) < self.side_by_side and not stop() and (job := next(waiting, None)) is not None:
                if self.ended(job) is None:
                    active.append((job, _own_randomness(self._start(job, progress, stop))))
                elif (job.row, job.column, job.trial) not in recorded:  # killed before it was recorded
                    yield job, run_record(self.folder.path / job.folder)
            if not active:
                break
            for item in list(active):
                try:
                    record = self._advance(*item)
                except Interrupted:
                    stopped = True
                    active.remove(item)
                    continue
                if record is not None:
                    active.remove(item)
                    yield item[0], record
        if stopped or next(waiting, None) is not None:
            raise Interrupted(STOPPED)

    def _start(self, job: Planned, progress: OnRunEpoch, stop: Callable[[], bool]) -> Iterator[None]:
        out = self.folder.path / job.folder
        begun = (out / "config.json").exists()
        progress(job, {"epoch": 0})
        return run_epochs(job.settings, out, self.root, self.engine, begun, lambda row: progress(job, row), stop)

    def _advance(self, job: Planned, epochs: Iterator[None]) -> dict[str, Any] | None:
        """Let a run queue its next epoch: None, or its record when it has ended."""
        out = self.folder.path / job.folder
        try:
            next(epochs)
        except (StopIteration, DeadRunError):
            return run_record(out)
        except Interrupted:
            raise
        except Exception as error:  # the table reports it, and the other runs continue
            where = provenance(self.engine.resolve_device())
            return {"status": "failed", "reason": _in_one_line(error), "settings": job.settings.as_dict(), **where}
        return None

    def write_record(self, job: Planned, record: dict[str, Any]) -> None:
        """Append the record to results.jsonl."""
        where = {"row": job.row, "column": job.column, "trial": job.trial, "folder": job.folder}
        together = self.side_by_side * self.processes
        self.folder.append_row(RESULTS, {**where, "side_by_side": together, **record})

    def records(self, name: str) -> list[dict[str, Any]]:
        """All records of a file so far."""
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
                yield job, _in_one_line(error)
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


def _own_randomness(epochs: Iterator[None]) -> Iterator[None]:
    """Give a run its own random state, so that runs in the same process do not affect it."""
    state = _random_state()
    while True:
        _set_random_state(state)
        try:
            next(epochs)
        except StopIteration:
            return
        state = _random_state()
        yield


def _random_state() -> list[Tensor]:
    """The generator states of the CPU and of the current GPU, if there is one."""
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state()] if torch.cuda.is_available() else [])]


def _set_random_state(state: list[Tensor]) -> None:
    torch.set_rng_state(state[0])
    if len(state) > 1:
        torch.cuda.set_rng_state(state[1])


def _in_one_line(error: Exception) -> str:
    """
    >>> _in_one_line(ValueError("too large\\nby far"))
    'ValueError: too large'
    """
    lines = str(error).strip().splitlines() or [""]
    if lines[0].startswith("Caught "):  # by a DataLoader worker, whose traceback precedes the message
        return lines[-1]
    return f"{type(error).__name__}: {lines[0]}"
