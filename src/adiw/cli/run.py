"""``adiw run``: one run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from adiw.cli.console import StopRequest, one_line_errors, progress_bar, say
from adiw.distributed.process_group import current_processes
from adiw.engine.torchrun import local_device
from adiw.experiments.run import WORKERS, Engine, keep_silent
from adiw.experiments.run import run as run_experiment
from adiw.experiments.settings import Settings, SettingsError, resolve
from adiw.integrations.trackers import Tracker, open_tracker


def run(
    dataset: Annotated[str, typer.Option(help="Data set, see 'adiw list'.")] = "digits",
    shift: Annotated[str | None, typer.Option(help="Simulated shift such as symmetric:0.4.")] = None,
    method: Annotated[str | None, typer.Option(help="Method, see 'adiw list'.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs to train.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results [default: runs/DATASET-METHOD-SEED].")
    ] = None,
    path: Annotated[str | None, typer.Option(help="File or folder, for csv and imagefolder.")] = None,
    target: Annotated[str | None, typer.Option(help="Label column, for csv.")] = None,
    trusted: Annotated[int | None, typer.Option(help="Number of trusted samples to draw.")] = None,
    trusted_file: Annotated[str | None, typer.Option(help="File with the indices of the trusted samples.")] = None,
    trusted_folder: Annotated[str | None, typer.Option(help="Folder of trusted images, for imagefolder.")] = None,
    broken_images: Annotated[
        str | None, typer.Option(help="Images that cannot be decoded: refuse [default], or skip them by name.")
    ] = None,
    selection: Annotated[int | None, typer.Option(help="Judge on this many held-out training samples.")] = None,
    model: Annotated[str | None, typer.Option(help="Network, or package.module:factory.")] = None,
    transform: Annotated[str | None, typer.Option(help="loss or features, for ADIW.")] = None,
    width: Annotated[str | None, typer.Option(help="Kernel width: a number, auto (ADIW) or quantile (DIW).")] = None,
    step_size: Annotated[float | None, typer.Option(help="Step size of weight estimation.")] = None,
    penalty: Annotated[float | None, typer.Option(help="lambda of ADIW-LS, kappa of ADIW-WA's network.")] = None,
    step: Annotated[str | None, typer.Option(help="ADIW-KM's step: plain or local.")] = None,
    critic: Annotated[str | None, typer.Option(help="ADIW-WA's critic: exact or network.")] = None,
    solver: Annotated[str | None, typer.Option(help="DIW's QP solver: gpu, cvxopt or osqp.")] = None,
    exact: Annotated[bool | None, typer.Option(help="The paper's separate pass for z.")] = None,
    val_batch: Annotated[int | None, typer.Option(help="Validation samples matched with a batch.")] = None,
    val_refresh: Annotated[int | None, typer.Option(help="Of these, evaluated anew at a time.")] = None,
    val_every: Annotated[int | None, typer.Option(help="Evaluate them in every so many steps.")] = None,
    mean_one: Annotated[bool | None, typer.Option(help="Hold the mean weight of a batch at one.")] = None,
    cap: Annotated[float | None, typer.Option(help="Largest weight.")] = None,
    min_ess: Annotated[float | None, typer.Option(help="Smallest effective sample size, a share.")] = None,
    optimizer: Annotated[str | None, typer.Option(help="sgd or adam.")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate.")] = None,
    momentum: Annotated[float | None, typer.Option(help="Momentum, for sgd.")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="Weight decay.")] = None,
    clip: Annotated[float | None, typer.Option(help="Largest norm of a step's gradient.")] = None,
    decay_every: Annotated[int | None, typer.Option(help="Epochs between decays of the learning rate.")] = None,
    decay: Annotated[float | None, typer.Option(help="Factor of each decay.")] = None,
    batch: Annotated[int | None, typer.Option(help="Batch size.")] = None,
    bf16: Annotated[bool | None, typer.Option(help="Forward pass in bfloat16, on a GPU.")] = None,
    channels_last: Annotated[bool | None, typer.Option(help="Image layout with channels innermost.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda [default: cuda where there is one].")] = None,
    data_root: Annotated[
        Path | None, typer.Option(help="Folder of the data sets [default: $ADIW_DATA or data].")
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes that decode images.")] = WORKERS,
    capture: Annotated[bool, typer.Option(help="On a GPU, replay the step as a graph.")] = True,
    compiled: Annotated[
        bool, typer.Option("--compile", help="Let torch.compile translate the network and the weight estimation.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the folder's checkpoint.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar: for logs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    tracker: Annotated[
        list[str] | None, typer.Option(help="Also log to tensorboard or mlflow, in the folder; may be given twice.")
    ] = None,
) -> None:
    """Train one method on one data set under one shift, and write the results into a folder."""
    given = {
        key: value for key, value in locals().items() if key in Settings.__dataclass_fields__ and value is not None
    }
    with one_line_errors():
        given["width"] = width_named(given.pop("width", None))
        settings = resolve({key: value for key, value in given.items() if value is not None})
        folder = out or Path("runs") / f"{settings.dataset}-{settings.method}-{settings.seed}"
        if workers < 0:
            raise SettingsError(f"workers must be at least 0, got {workers}")
        where = local_device(None if device is None else device_named(device))
        first = current_processes().rank == 0  # of the processes that torchrun has started, the one that speaks
        engine = Engine(where, workers, capture, compiled, say if first else keep_silent)
        with (
            progress_bar("epochs", quiet or as_json or not first) as bar,
            _tracking((tracker or []) if first else [], folder, settings) as track,
            StopRequest() as stop,
        ):
            task = bar.add_task(settings.method, total=settings.epochs, note="")

            def show(row: dict[str, Any]) -> None:
                bar.update(task, completed=row["epoch"], note=f"accuracy {row['accuracy']:.2f}")
                track(row)

            result = run_experiment(settings, folder, data_root, engine, resume, show, stop)
    if not first:
        return
    if as_json:
        print(json.dumps(result))
    else:
        print(
            f"{settings.method} on {settings.dataset}, {settings.shift}: accuracy {result['accuracy']:.2f}% ", end=""
        )
        print(f"(mean of the last {min(10, result['epochs'])} of {result['epochs']} epochs, {result['judged_on']})")
        print(f"files are in {folder}")


def width_named(text: str | None) -> float | str | None:
    """A number, auto or quantile; None stays."""
    if text is None or text in ("auto", "quantile"):
        return text
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"width must be a number, auto or quantile, got {text!r}") from None


def device_named(text: str) -> torch.device:
    """The device of this name, or an error that says what there is."""
    name, _, number = text.partition(":")
    if name not in ("cpu", "cuda") or (":" in text and not number.isdigit()):
        raise ValueError(f"unknown device {text!r}: expected cpu, cuda, or cuda:1 for the second GPU")
    if name == "cuda" and int(number or 0) >= torch.cuda.device_count():
        raise ValueError(f"device {text}: PyTorch finds {torch.cuda.device_count()} GPUs; use --device cpu")
    return torch.device(name if name == "cpu" else text)


@contextmanager
def _tracking(names: list[str], folder: Path, settings: Settings) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A function that gives a row to each of these trackers; they are closed however the run ends."""
    trackers = [open_tracker(name, folder, settings.as_dict()) for name in dict.fromkeys(names)]
    failed = True
    try:
        yield lambda row: log_row(trackers, row)
        failed = False
    finally:
        for tracker in trackers:
            tracker.close(failed)


def log_row(trackers: list[Tracker], row: dict[str, Any]) -> None:
    """An epoch's row of metrics, for each tracker."""
    values = {name: value for name, value in row.items() if name != "epoch"}
    for tracker in trackers:
        tracker.log(row["epoch"], values)
