"""``adiw sweep``: a table of the paper, from its recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adiw.cli.board import Board
from adiw.cli.console import DEAD, StopRequest, one_line_errors, progress_bar, say
from adiw.cli.run import Capture, Compiled, DataRoot, Device, Quiet, Workers, device_named
from adiw.cli.tables import show_tables
from adiw.data import load as load_data
from adiw.experiments.budget import Budget, seconds_of
from adiw.experiments.plan import Part, Planned, plan
from adiw.experiments.process_pool import run_in_processes
from adiw.experiments.recipes import load
from adiw.experiments.resume import open_sweep
from adiw.experiments.run import WORKERS, Engine, Interrupted
from adiw.experiments.run_folder import Folder
from adiw.experiments.settings import SettingsError
from adiw.experiments.sweep import STOPPED, Sweep


def sweep(
    name: Annotated[str, typer.Argument(help="Recipe, see 'adiw list', or a .toml file.")],
    method: Annotated[list[str] | None, typer.Option(help="Only this row (its label or method); repeatable.")] = None,
    shift: Annotated[list[str] | None, typer.Option(help="Only this column (label or shift); repeatable.")] = None,
    trials: Annotated[int | None, typer.Option(help="Trials of each run [default: the recipe's].")] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs of each run [default: the recipe's].")] = None,
    selection: Annotated[
        int | None, typer.Option(help="Hold out this many training samples and test on them.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results [default: runs/NAME].")] = None,
    path: Annotated[str | None, typer.Option(help="Folder of images, for ImageNet's recipes.")] = None,
    data_root: DataRoot = None,
    device: Device = None,
    side_by_side: Annotated[int, typer.Option(help="Runs that share a GPU, each on its own stream.")] = 1,
    processes: Annotated[int, typer.Option(help="Processes that share the runs.")] = 1,
    budget: Annotated[
        str | None,
        typer.Option(
            help="Stop before this time is over, such as 25m; the same command resumes [default: no limit]."
        ),
    ] = None,
    time: Annotated[
        bool, typer.Option("--time", help="Instead of the runs, time each cell alone over a few epochs.")
    ] = False,
    tables_only: Annotated[
        bool, typer.Option("--tables-only", help="Run nothing: draw tables and figures from the records.")
    ] = False,
    workers: Workers = WORKERS,
    capture: Capture = True,
    compiled: Compiled = False,
    quiet: Quiet = False,
) -> None:
    """Run a table of the paper, or a part of it. The same command resumes after an interruption."""
    with one_line_errors():
        limit = None if budget is None else Budget(seconds_of(budget))
        recipe = load(name)
        for option, value, least in (
            ("trials", trials, 1),
            ("side-by-side", side_by_side, 1),
            ("processes", processes, 1),
            ("workers", workers, 0),
        ):
            if value is not None and value < least:
                raise SettingsError(f"--{option} must be at least {least}, got {value}")
        engine = Engine(None if device is None else device_named(device), workers, capture, compiled, say)
        folder = out or Path("runs") / recipe.name
        given = {"epochs": epochs, "selection": selection, "path": path}
        changes = {key: value for key, value in given.items() if value is not None}
        if tables_only:
            show_tables(folder, time)
            return
        planned = plan(recipe, Part(tuple(method or ()), tuple(shift or ()), trials, changes))
        work = Sweep(Folder(folder), data_root, engine, side_by_side, processes)
        _check_data([job for job in planned if time or work.ended(job) is None], data_root)
        open_sweep(recipe, changes, folder)
        try:
            well = _time(work, planned, quiet) if time else _run(work, planned, recipe.name, quiet, limit)
        except Interrupted:
            show_tables(folder, time)
            if limit is None or not limit.spent():
                raise
            say("the budget is spent; the same command resumes")
            well = False
        else:
            work.write_sums()
            show_tables(folder, time)
    if not well:
        raise SystemExit(DEAD)


def _check_data(planned: list[Planned], root: Path | None) -> None:
    """Load the data once, so that an error in them is reported once and not by every run."""
    for dataset, path, target in {(job.settings.dataset, job.settings.path, job.settings.target) for job in planned}:
        load_data(dataset, root, path=path, target=target)


def _time(work: Sweep, planned: list[Planned], quiet: bool) -> bool:
    """Time the cells that have no time yet; true if all could be timed."""
    well = True
    with progress_bar("cells", quiet) as bar, StopRequest(STOPPED) as stop:
        task = bar.add_task("timing", total=sum(job.trial == 0 for job in planned), note="")
        for job, reason in work.time(planned, stop):
            bar.update(task, advance=1, note=f"{job.row}, {job.column}")
            if reason is not None:
                well = False
                say(f"{job.row}, {job.column}: not timed ({reason})")
    return well


def _run(work: Sweep, planned: list[Planned], name: str, quiet: bool, limit: Budget | None) -> bool:
    """Run what has not ended, within the time limit, and report the counts; true if all are done."""
    with progress_bar("", quiet) as bar, StopRequest(STOPPED) as asked:

        def stop() -> bool:
            return asked() or (limit is not None and limit.spent())

        board = Board(bar, name, {job: work.ended(job) or "left" for job in planned})
        try:
            for job, record in run_in_processes(work, planned, board.row, stop):
                work.write_record(job, record)
                board.ended(job, record)
        finally:
            board.close()
            say(str(board))
    return board.count("done") == len(planned)
