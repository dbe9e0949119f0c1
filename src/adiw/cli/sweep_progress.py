"""The progress of a sweep: the numbers of runs that are done, running, dead, failed and left."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rich.progress import Progress, TaskID

from adiw.cli.console import say
from adiw.experiments.plan import Planned

KINDS = ("done", "running", "dead", "failed", "left")


class SweepProgress:
    """A progress bar for the sweep and one for each run; without bars, a line for each run that ends.

    states: the state of each run at the start, one of ``KINDS``.
    """

    def __init__(self, bar: Progress, name: str, states: dict[Planned, str]) -> None:
        self.bar, self.states = bar, states
        self.running: dict[Planned, TaskID] = {}
        self.whole = bar.add_task(name, total=len(states), completed=len(states) - self.count("left"), note=str(self))

    def count(self, *kinds: str) -> int:
        return sum(state in kinds for state in self.states.values())

    def row(self, job: Planned, row: dict[str, Any]) -> None:
        """A run has started (epoch 0) or finished an epoch."""
        if job not in self.running:
            self.running[job] = self.bar.add_task(job.name, total=job.settings.epochs, note="")
            self.states[job] = "running"
        note = f"accuracy {row['accuracy']:.2f}" if row.get("accuracy") is not None else ""
        total = row.get("epochs", job.settings.epochs)  # the latter is None for a length in steps
        self.bar.update(self.running[job], completed=row["epoch"], total=total, note=note)
        self.bar.update(self.whole, note=str(self))

    def ended(self, job: Planned, record: dict[str, Any]) -> None:
        """A run has ended with this record."""
        status = self.states[job] = record["status"]
        if job in self.running:
            self.bar.remove_task(self.running.pop(job))
        self.bar.update(self.whole, completed=len(self.states) - self.count("left", "running"), note=str(self))
        if status != "done":
            say(f"{job.name}: {status} ({record['reason']}); {self}")
        elif self.bar.disable:
            say(f"{job.name}: done, accuracy {record['accuracy']:.2f}; {self}")

    def close(self) -> None:
        """The sweep has stopped: runs in progress count as left."""
        self.states |= dict.fromkeys(self.running, "left")

    def __str__(self) -> str:
        counts = Counter(self.states.values())
        return ", ".join(f"{counts[kind]} {kind}" for kind in KINDS if counts[kind])
