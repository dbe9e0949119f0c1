"""``adiw run``: one run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.progress import Progress

from adiw.cli.console import StopRequest, on_bars, one_line_errors, progress_bar, say, timed_lines
from adiw.cli.settings_options import HELP, check_used, data_name, flag, settings_options, with_data
from adiw.distributed.process_group import current_processes
from adiw.divergences.registry import find
from adiw.engine.torchrun import local_device
from adiw.experiments.compare import FOLDER as ALTERNATIVES
from adiw.experiments.compare import compared_folds, comparison_rows, run_alternatives
from adiw.experiments.dead_run import DeadRunError
from adiw.experiments.methods import METHODS, method_name
from adiw.experiments.resume import resumed_settings
from adiw.experiments.run import run as run_experiment
from adiw.experiments.run_record import LAST
from adiw.experiments.settings import HOLD_OUT, Settings, SettingsError, resolve
from adiw.experiments.training_run import WORKERS, Engine, no_log
from adiw.integrations.trackers import open_tracker
from adiw.reports.grid import NONE, Box, Grid, Head, to_text

DataRoot = Annotated[Path | None, typer.Option(help="Folder of the data sets [default: $ADIW_DATA or data].")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda or cuda:1 [default: cuda if there is a GPU].")]
Workers = Annotated[int, typer.Option(help="Number of processes that decode images.", min=0)]
Capture = Annotated[bool, flag(help="On a GPU, replay the training step as a CUDA graph.")]
COMPILE = "Use torch.compile for the network and the weight estimation"
Compiled = Annotated[bool, flag("--compile", help=f"{COMPILE}.")]
FOLDS = 5  # of --compare for tables, whose networks train in seconds
MOST_GROUPS = 30  # in the table of a terminal: more are in result.json and on the page
Quiet = Annotated[bool, flag("--quiet", help="Show no progress bar.")]


@settings_options()
def run(
    given: dict[str, Any],
    data: Annotated[
        str | None,
        typer.Argument(metavar="DATA", help=f"{HELP}; in place of --dataset and --path.", show_default=False),
    ] = None,
    divergence: Annotated[
        str | None,
        typer.Option(
            help="Divergence of ADIW, see 'adiw list', or package.module:Class; instead of --method.",
            rich_help_panel="Method",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results [default: runs/DATA-METHOD-SEED].")] = None,
    resume: Annotated[
        bool,
        flag("--resume", help="Resume the run in the folder with its settings; --epochs or --steps may be larger."),
    ] = False,
    device: Device = None,
    data_root: DataRoot = None,
    workers: Workers = WORKERS,
    capture: Capture = True,
    compiled: Annotated[
        bool | None,
        flag(
            "--compile/--no-compile", help=f"{COMPILE} [default: on a GPU, if the run is long enough to pay for it]."
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: Annotated[bool, flag("--json", help="Print the result as JSON.")] = False,
    compare: Annotated[
        bool,
        flag(
            "--compare",
            help="Also train with uniform weights, with fine-tuning and on the trusted samples alone, and compare.",
        ),
    ] = False,
    folds: Annotated[
        int | None,
        typer.Option(
            help="With --compare, hold out each of this many parts of the trusted samples in turn, with runs for "
            "each; 1 compares on the samples of --hold-out [default: 5 for csv, else 1].",
            min=1,
        ),
    ] = None,
    tracker: Annotated[
        list[str] | None, typer.Option(help="Also log to tensorboard or mlflow, in the same folder; repeatable.")
    ] = None,
) -> None:
    """Train one method on one data set under one shift, and write the results into a folder."""
    with one_line_errors():
        given = with_divergence(with_data(given, data), divergence)
        settings, folder = _settings(given, out, resume)
        check_used(given, settings.method)
        where = local_device(None if device is None else device_named(device))
        first = current_processes().rank == 0  # under torchrun, only rank 0 prints
        silent = quiet or as_json or not first
        with (
            progress_bar("epochs", silent) as bar,
            _tracking((tracker or []) if first else [], folder, settings) as track,
            StopRequest() as stop,
        ):
            task = bar.add_task(settings.method, total=settings.epochs, note="")
            tell = timed_lines(silent or not bar.disable)

            def stage(text: str) -> None:
                bar.update(task, note=text)
                tell(text)

            def show(row: dict[str, Any]) -> None:
                note = f"accuracy {row['accuracy']:.2f}"
                bar.update(task, completed=row["epoch"], total=row["epochs"], note=note)
                tell(f"epoch {row['epoch']} of {row['epochs']}, {note}")
                track(row)

            engine = Engine(where, workers, capture, compiled, True, _once(say) if first else no_log, stage)
            try:
                result, dead = run_experiment(settings, folder, data_root, engine, resume, show, stop), None
                if result["accuracy"] is not None:  # in place of the last stage
                    bar.update(task, note=f"accuracy {result['accuracy']:.2f}")
            except DeadRunError as error:
                if not compare:
                    raise
                result, dead = {}, error
            folds = folds or compared_folds(folder) or (FOLDS if settings.dataset == "csv" else 1)
            incomparable = compare and folds == 1 and bool(result) and not result.get("held_out")
            if (compare and not incomparable) or (folder / ALTERNATIVES).is_dir():
                result = run_alternatives(settings, folder, data_root, engine, folds, _bars(bar), stop)
        if first:
            print(json.dumps(result) if as_json else _summary(settings, result, folder, folds))
        if dead is not None:
            raise dead
        if incomparable:
            raise SettingsError(
                "nothing is compared, as too few trusted samples are held out: --resume --compare --folds "
                f"{FOLDS} holds out each of them in turn, with {FOLDS} trainings of each method"
            )


def _once(log: Callable[[str], None]) -> Callable[[str], None]:
    """A function that logs each line once: the alternatives of a run have its settings."""
    logged: set[str] = set()

    def log_new(line: str) -> None:
        if line not in logged:
            logged.add(line)
            log(line)

    return log_new


def _bars(bar: Progress) -> Callable[[str, dict[str, Any]], None]:
    """A function that shows the progress of a run in a bar of its own."""
    show = on_bars(bar)
    return lambda method, row: show(method, row["epoch"], row["epochs"], f"accuracy {row['accuracy']:.2f}")


def with_divergence(given: dict[str, Any], divergence: str | None) -> dict[str, Any]:
    """The given settings with the method that matches batches by this divergence."""
    if divergence is None:
        return given
    if "method" in given:
        raise SettingsError("--method and --divergence both select the method: give only one of them")
    find(divergence)  # an unknown name raises an error that lists the divergences
    return {**given, "method": method_name(divergence)}


def _settings(given: dict[str, Any], out: Path | None, resume: bool) -> tuple[Settings, Path]:
    """The settings of the run and its folder; a resumed run has the settings in its folder."""
    if resume and out is not None:
        return resumed_settings(out, given), out
    settings = resolve({"hold_out": HOLD_OUT, "cautious": True, **given})
    folder = out or Path("runs") / f"{data_name(settings)}-{settings.method.replace(':', '.')}-{settings.seed}"
    return (resumed_settings(folder, given) if resume else settings), folder


def _summary(settings: Settings, result: dict[str, Any], folder: Path, folds: int) -> str:
    epochs = result["epochs"] + result.get("fine_tune_epochs", 0)
    figure = f"mean of the last {min(LAST, epochs)} of {epochs} epochs, {result['judged_on']}"
    if "best" in result:
        best = f"{result['best']['why']}, on {result['held_out']} trusted samples"
        figure = f"{result['judged_on']}, epoch {result['best']['epoch']}: {best}; "
        figure += f"the last epoch has {result['last']['accuracy']:.2f}%"
    data = data_name(settings) + ("" if settings.shift == "none" else f", {settings.shift}")
    lines = [
        f"{settings.method} on {data}: accuracy {result['accuracy']:.2f}% ({figure})",
        f"files are in {folder}",
    ]
    if (result["verdict"] or {}).get("comparison"):
        rows = comparison_rows(folder, result, settings, folds)
        more = folds == 1 and result["verdict"]["answer"] == "cannot tell"
        lines.append(f"\n{to_text(_comparison(rows, result['judged_on'], folds, more))}")
    if (result.get("groups") or {}).get("groups"):
        lines.append(f"\n{to_text(_groups(settings.group or '', result['groups']['groups'], result['judged_on']))}")
    return "\n".join([*lines, *([result["verdict"]["sentence"]] if result["verdict"] else [])])


def _groups(column: str, rows: list[dict[str, Any]], judged_on: str) -> Grid:
    """The groups of a column: accuracy, mean weight and effective sample size."""
    names = (column, "training samples", f"accuracy on {judged_on}", "mean weight", "effective samples")

    def line(row: dict[str, Any]) -> list[Box]:
        accuracy = NONE if row["accuracy"] is None else f"{row['accuracy']:.2f}"
        return [*map(Box, (row["name"], f"{row['n']}", accuracy, f"{row['mean_weight']:.2f}", f"{row['ess']:.0f}"))]

    more = len(rows) - MOST_GROUPS
    notes = [f"The largest {MOST_GROUPS} of {len(rows):,} groups; result.json has all."] if more > 0 else []
    shown = sorted(rows, key=lambda row: -row["n"])[:MOST_GROUPS] if more > 0 else rows
    return Grid("Groups", list(map(Head, names)), list(map(line, shown)), notes)


def _comparison(rows: list[dict[str, Any]], judged_on: str, folds: int, more: bool) -> Grid:
    """The run and its alternatives, with differences on held-out samples; ``more``: say how to use more of these."""
    names = ("method", judged_on, "held out", "difference", "95% interval")

    def line(row: dict[str, Any]) -> list[Box]:
        accuracies = [NONE if row[key] is None else f"{row[key]:.2f}" for key in ("accuracy", "held_out")]
        compared = "difference" in row
        interval = f"{row['low']:+.1f} to {row['high']:+.1f}" if compared else NONE
        difference = f"{row['difference']:+.1f}" if compared else NONE
        return list(map(Box, (row["method"], *accuracies, difference, interval)))

    others = (row["method"] for row in rows[1:])
    meanings = "; ".join(f"{name}: {METHODS[name].about[0].lower()}{METHODS[name].about[1:]}" for name in others)
    notes = ["Differences, and the verdict, are those on held-out trusted samples."]
    if len(rows) > 3:
        notes[0] += f" The intervals of all but {rows[1]['method']} hold together."
    notes.append(f"{meanings}.")
    if more:
        notes.append(
            f"--resume --compare --folds {FOLDS} compares on all trusted samples: {FOLDS} trainings of each method."
        )
    if folds > 1:
        notes.insert(
            0, f"Means of {folds} trainings of each method, each without a different part of the trusted samples."
        )
    if dead := [f"{row['dead']} of {row['method']}" for row in rows if row["dead"]]:
        notes.append(f"Trainings that are dead, and left out of the figures on the {judged_on}: {', '.join(dead)}.")
    return Grid("Accuracy in percent", list(map(Head, names)), list(map(line, rows)), notes)


def device_named(text: str) -> torch.device:
    name, _, number = text.partition(":")
    if name not in ("cpu", "cuda") or (":" in text and not number.isdigit()):
        raise ValueError(f"unknown device {text!r}: expected cpu, cuda, or cuda:1 for the second GPU")
    if name == "cuda" and int(number or 0) >= torch.cuda.device_count():
        raise ValueError(f"device {text}: PyTorch finds {torch.cuda.device_count()} GPUs; use --device cpu")
    return torch.device(name if name == "cpu" else text)


@contextmanager
def _tracking(names: list[str], folder: Path, settings: Settings) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A function that logs a row to each of these trackers, which are closed when the run ends or fails."""
    trackers = [open_tracker(name, folder, settings.as_dict()) for name in dict.fromkeys(names)]

    def log(row: dict[str, Any]) -> None:
        values = {name: value for name, value in row.items() if name not in ("epoch", "epochs")}
        for tracker in trackers:
            tracker.log(row["epoch"], values)

    failed = True
    try:
        yield log
        failed = False
    finally:
        for tracker in trackers:
            tracker.close(failed)
