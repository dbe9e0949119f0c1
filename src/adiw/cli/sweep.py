"""``adiw sweep``: a table of the paper, from its recipe."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress, TaskID

from adiw.cli.console import StopRequest, one_line_errors, progress_bar, say
from adiw.cli.run import device_named
from adiw.experiments.processes import run_in_processes
from adiw.experiments.recipes import Recipe, load
from adiw.experiments.run import WORKERS, Engine
from adiw.experiments.settings import SettingsError
from adiw.experiments.sweep import Part, Planned, Sweep, plan


def sweep(
    name: Annotated[str, typer.Argument(help="Recipe, see 'adiw list', or a .toml file.")],
    method: Annotated[list[str] | None, typer.Option(help="Only this row (its label or method); repeatable.")] = None,
    shift: Annotated[list[str] | None, typer.Option(help="Only this column (label or shift); repeatable.")] = None,
    trials: Annotated[int | None, typer.Option(help="Trials of each run [default: the recipe's].")] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs of each run [default: the recipe's].")] = None,
    selection: Annotated[int | None, typer.Option(help="Judge on this many held-out training samples.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results [default: runs/NAME].")] = None,
    path: Annotated[str | None, typer.Option(help="Folder of images, for ImageNet's recipes.")] = None,
    data_root: Annotated[
        Path | None, typer.Option(help="Folder of the data sets [default: $ADIW_DATA or data].")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda [default: cuda where there is one].")] = None,
    side_by_side: Annotated[int, typer.Option(help="Runs that share the GPU, each on a stream of its own.")] = 1,
    processes: Annotated[int, typer.Option(help="Processes, each with runs of its own.")] = 1,
    time: Annotated[bool, typer.Option("--time", help="Time each cell alone over a few epochs instead.")] = False,
    workers: Annotated[int, typer.Option(help="Processes that decode images.")] = WORKERS,
    capture: Annotated[bool, typer.Option(help="On a GPU, replay the step as a graph.")] = True,
    compiled: Annotated[bool, typer.Option("--compile", help="Let torch.compile translate the network.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar: for logs.")] = False,
) -> None:
    """Run a table of the paper, or a part of it. The same command goes on after an interruption."""
    with one_line_errors():
        recipe = load(name)
        for option, value in (("trials", trials), ("side-by-side", side_by_side), ("processes", processes)):
            if value is not None and value < 1:
                raise SettingsError(f"--{option} must be at least 1, got {value}")
        more = {"path": path, "selection": selection}
        given = tuple((key, value) for key, value in more.items() if value is not None)
        part = Part(tuple(method or ()), tuple(shift or ()), trials, epochs, given)
        where = None if device is None else device_named(device)
        engine = Engine(where, workers, capture, compiled, say)
        folder = out or Path("runs") / recipe.name
        work = Sweep(recipe, folder, data_root, engine, side_by_side)
        planned = plan(recipe, part)
        if time:
            _time(work, planned, quiet)
        else:
            _run(work, planned, processes, quiet)
    print(f"files are in {folder}")


def _time(work: Sweep, planned: list[Planned], quiet: bool) -> None:
    with progress_bar("cells", quiet) as bar:
        task = bar.add_task("timing", total=sum(job.trial == 0 for job in planned), note="")
        for job in work.time(planned):
            bar.update(task, advance=1, note=f"{job.row}, {job.column}")


def _run(work: Sweep, planned: list[Planned], processes: int, quiet: bool) -> None:
    """Run what is left, and say at the end how many ended how."""
    states = {job: work.ended(job) or "left" for job in planned}
    with progress_bar("", quiet) as bar, StopRequest() as stop:
        board = _Board(bar, work.recipe, states)
        try:
            for job, record in run_in_processes(work, planned, processes, board.row, stop):
                work.note(job, record)
                board.ended(job, str(record["status"]))
                if record["status"] != "done":
                    say(f"{job.name}: {record['status']} ({record['reason']})")
        finally:
            print(board.summary(), file=sys.stderr)


class _Board:
    """What is done, running, dead, failed and left, as bars: one for the sweep and one for each run."""

    def __init__(self, bar: Progress, recipe: Recipe, states: dict[Planned, str]) -> None:
        self.bar, self.states = bar, states
        self.running: dict[Planned, TaskID] = {}
        finished = sum(state != "left" for state in states.values())
        self.whole = bar.add_task(recipe.name, total=len(states), completed=finished, note=self.summary())

    def row(self, job: Planned, row: dict[str, Any]) -> None:
        if job not in self.running:
            self.running[job] = self.bar.add_task(job.name, total=job.settings.epochs, note="")
            self.states[job] = "running"
        note = f"accuracy {row['accuracy']:.2f}"
        self.bar.update(self.running[job], completed=row["epoch"], note=note)
        self.bar.update(self.whole, note=self.summary())

    def ended(self, job: Planned, status: str) -> None:
        self.states[job] = status
        if job in self.running:
            self.bar.remove_task(self.running.pop(job))
        self.bar.update(self.whole, advance=1, note=self.summary())

    def summary(self) -> str:
        counts = Counter(self.states.values())
        kinds = ("done", "running", "dead", "failed", "left")
        return ", ".join(f"{counts[kind]} {kind}" for kind in kinds if counts[kind])
