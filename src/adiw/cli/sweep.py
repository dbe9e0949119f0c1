"""``adiw sweep``: a table of the paper, from its recipe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress, TaskID

from adiw.cli.console import DEAD, StopRequest, one_line_errors, progress_bar, say
from adiw.cli.run import Capture, Compiled, DataRoot, Device, Quiet, Workers, device_named
from adiw.cli.settings_options import flag
from adiw.data import load as load_data
from adiw.experiments.budget import Budget, seconds_of
from adiw.experiments.executors import RETRIES, Executor, run_on
from adiw.experiments.local_executor import LocalExecutor, processes_for
from adiw.experiments.recipes import Part, Planned, load, plan
from adiw.experiments.resume import open_sweep
from adiw.experiments.run import Interrupted
from adiw.experiments.run_folder import Folder
from adiw.experiments.settings import SettingsError, unknown
from adiw.experiments.shared_gpu import processes_to_share, shared_gpu
from adiw.experiments.sweep import STOPPED, Sweep
from adiw.experiments.training_run import WORKERS, Engine
from adiw.reports.folders import read_sweep
from adiw.reports.grid import to_text
from adiw.reports.tables import accuracy_table, time_table, write_tables

EXECUTORS = ("local", "ray")


@dataclass(frozen=True)
class Where:
    """The name of the executor, its processes, the share of a GPU for each run (None: chosen), and retries."""

    executor: str
    processes: int | None
    gpus_per_run: float | None
    retries: int

    def __post_init__(self) -> None:
        if self.executor not in EXECUTORS:
            raise unknown("executor", self.executor, EXECUTORS)
        if self.executor == "ray" and self.processes is not None:
            raise SettingsError(
                "--processes is for --executor local: Ray starts as many runs as it has CPUs and GPUs"
            )
        if self.gpus_per_run is not None and not 0 < self.gpus_per_run <= 1:
            raise SettingsError(f"--gpus-per-run must be above 0 and at most 1, got {self.gpus_per_run:g}")

    @contextmanager
    def open(self, work: Sweep, left: list[Planned]) -> Iterator[Executor | None]:
        """An executor for the runs that are left; None to compute them in this process."""
        if self.executor == "ray" and left:
            from adiw.experiments.ray_executor import RayExecutor

            if work.engine.device is not None and work.engine.device.index is not None:
                raise SettingsError(
                    f"--device {work.engine.device}: Ray chooses the GPU of each run; use --device cuda"
                )
            with RayExecutor(0.0 if _on_cpu(work.engine) else self.gpus_per_run) as cluster:
                work.processes = min(cluster.slots, len(left))
                yield cluster
            return
        device, each = work.engine.resolve_device(), self.gpus_per_run or 1.0
        work.processes = sharing = self.processes or max(1, min(len(left), processes_for(device, each)))
        on_gpu = device.type == "cuda"
        if on_gpu and work.processes == 1 and self.processes is None and self.gpus_per_run is None:
            sharing = processes_to_share(job.settings.model for job in left)
        with shared_gpu(sharing if on_gpu else 1) as shared:
            if shared:
                work.processes = sharing
            if work.processes == 1:
                yield None
                return
            spread = not _on_cpu(work.engine) and device.index is None
            with LocalExecutor(work.processes, each if spread else None) as processes:
                yield processes


def _on_cpu(engine: Engine) -> bool:
    return engine.device is not None and engine.device.type == "cpu"


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


def sweep(
    name: Annotated[str, typer.Argument(help="Recipe, see 'adiw list', or a .toml file.")],
    method: Annotated[
        list[str] | None, typer.Option(help="Only this row, by its label or method; repeatable.")
    ] = None,
    shift: Annotated[
        list[str] | None, typer.Option(help="Only this column, by its label or shift; repeatable.")
    ] = None,
    trials: Annotated[int | None, typer.Option(help="Trials of each cell [default: the recipe's].", min=1)] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs of each run [default: the recipe's].")] = None,
    selection: Annotated[
        int | None, typer.Option(help="Hold out this many training samples and test on them [default: the recipe's].")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results [default: runs/NAME].")] = None,
    path: Annotated[str | None, typer.Option(help="Folder of images, for the recipe imagenet-noise.")] = None,
    data_root: DataRoot = None,
    device: Device = None,
    executor: Annotated[str, typer.Option(help="Where runs are computed: local or ray.")] = "local",
    side_by_side: Annotated[
        int | None,
        typer.Option(
            help="Number of runs that share a GPU [default: 1; of small networks, by NVIDIA's MPS, up to 12].", min=1
        ),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(help="Number of processes [default: one per GPU; on a CPU, cores / threads].", min=1),
    ] = None,
    gpus_per_run: Annotated[
        float | None, typer.Option(help="Share of a GPU for each run, such as 0.5; the same as --side-by-side 2.")
    ] = None,
    retries: Annotated[
        int, typer.Option(help="How often a run is started again after its process was killed.", min=0)
    ] = RETRIES,
    time_limit: Annotated[
        str | None, typer.Option(help="Longest time of a run, such as 2h; then it has failed [default: no limit].")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            help="Stop within this time, such as 25m or 1h30m; the same command resumes [default: no limit]."
        ),
    ] = None,
    time: Annotated[
        bool, flag("--time", help="Time a few epochs of each cell alone, instead of running the trials.")
    ] = False,
    tables_only: Annotated[
        bool, flag("--tables-only", help="Draw tables and figures from the records without running anything.")
    ] = False,
    workers: Workers = WORKERS,
    capture: Capture = True,
    compiled: Compiled = False,
    quiet: Quiet = False,
) -> None:
    """Run the trials of a recipe, such as a table of the paper. The same command resumes after an interruption."""
    with one_line_errors():
        limit = None if budget is None else Budget(seconds_of(budget))
        recipe = load(name)
        if side_by_side is not None and gpus_per_run is not None:
            raise SettingsError("--side-by-side and --gpus-per-run say the same: give only one of them")
        share = gpus_per_run if side_by_side is None else 1 / side_by_side
        where = Where(executor, processes, share, retries)
        longest = None if time_limit is None else seconds_of(time_limit, "--time-limit")
        engine = Engine(None if device is None else device_named(device), workers, capture, compiled, log=say)
        folder = out or Path("runs") / recipe.name
        given = {"epochs": epochs, "selection": selection, "path": path}
        changes = {key: value for key, value in given.items() if value is not None}
        if tables_only:
            show_tables(folder, time)
            return
        planned = plan(recipe, Part(tuple(method or ()), tuple(shift or ()), trials, changes))
        work = Sweep(Folder(folder), data_root, engine, time_limit=longest)
        _check_data([job for job in planned if time or work.ended(job) is None], data_root)
        open_sweep(recipe, changes, folder)
        bar = progress_bar("cells" if time else "", quiet)
        try:
            complete = _time(work, planned, bar) if time else _run(work, planned, bar, recipe.name, limit, where)
        except Interrupted:
            show_tables(folder, time, figures=limit is not None and limit.spent())
            if limit is None or not limit.spent():
                raise
            say("the time budget is spent; the same command resumes")
            complete = False
        else:
            work.write_sums()
            show_tables(folder, time)
    if not complete:
        raise SystemExit(DEAD)


def _check_data(planned: list[Planned], root: Path | None) -> None:
    """Load the data once, so that a data error is reported once and not by every run."""
    for dataset, path, target in {(job.settings.dataset, job.settings.path, job.settings.target) for job in planned}:
        load_data(dataset, root, path=path, target=target)


def _time(work: Sweep, planned: list[Planned], bar: Progress) -> bool:
    """Time the cells that have no time yet; true if all could be timed."""
    complete = True
    with bar, StopRequest(STOPPED) as stop:
        task = bar.add_task("timing", total=sum(job.trial == 0 for job in planned), note="")
        for job, reason in work.time(planned, stop):
            bar.update(task, advance=1, note=f"{job.row}, {job.column}")
            if reason is not None:
                complete = False
                say(f"{job.row}, {job.column}: not timed ({reason})")
    return complete


def _run(work: Sweep, planned: list[Planned], bar: Progress, name: str, limit: Budget | None, where: Where) -> bool:
    """Run what has not ended, within the time limit, and report the counts; true if all are done."""
    states = {job: work.ended(job) or "left" for job in planned}
    left = [job for job, state in states.items() if state == "left"]
    with where.open(work, left) as executor, bar, StopRequest(STOPPED) as stop_requested:

        def stop() -> bool:
            return stop_requested() or (limit is not None and limit.spent())

        shown = SweepProgress(bar, name, states)
        try:
            for job, record in run_on(executor, work, planned, shown.row, stop, where.retries):
                work.write_record(job, record)
                shown.ended(job, record)
        finally:
            shown.close()
            say(str(shown))
    return shown.count("done") == len(planned)


def show_tables(folder: Path, time: bool, figures: bool = True) -> None:
    """Print the accuracy table (or the time table), and write both and the figures beside the records.

    A stop leaves out the figures: they take seconds.
    """
    results = read_sweep(folder)
    print(to_text(time_table(results) if time else accuracy_table(results)))
    write_tables(results, folder / "tables")
    try:
        if figures:
            from adiw.reports.figures import write_figures

            write_figures(results, folder / "figures")
    except ImportError:
        say('figures need matplotlib: pip install "adiw[cli]"')
    except Exception as error:  # the records and tables are already written
        say(f"figures could not be drawn ({type(error).__name__}: {error})")
    print(f"files are in {folder}")
