"""``adiw profile``: what a method adds to the time and memory of a training step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from adiw.cli.console import one_line_errors, say
from adiw.cli.run import device_named
from adiw.experiments.run import WORKERS, Engine
from adiw.experiments.settings import Settings, SettingsError, resolve
from adiw.experiments.step_time import StepTime, compare
from adiw.reports.grid import Box, Grid, Head, to_text


def profile(
    dataset: Annotated[str, typer.Option(help="Data set, see 'adiw list'.")] = "digits",
    method: Annotated[str | None, typer.Option(help="Method, see 'adiw list'.")] = None,
    model: Annotated[str | None, typer.Option(help="Network, or package.module:factory.")] = None,
    shift: Annotated[str | None, typer.Option(help="Simulated shift such as symmetric:0.4.")] = None,
    path: Annotated[str | None, typer.Option(help="File or folder, for csv and imagefolder.")] = None,
    target: Annotated[str | None, typer.Option(help="Label column, for csv.")] = None,
    trusted: Annotated[int | None, typer.Option(help="Number of trusted samples to draw.")] = None,
    trusted_file: Annotated[str | None, typer.Option(help="File with the indices of the trusted samples.")] = None,
    trusted_folder: Annotated[str | None, typer.Option(help="Folder of trusted images, for imagefolder.")] = None,
    batch: Annotated[int | None, typer.Option(help="Batch size.")] = None,
    val_batch: Annotated[int | None, typer.Option(help="Validation samples matched with a batch.")] = None,
    val_every: Annotated[int | None, typer.Option(help="Evaluate them in every so many steps.")] = None,
    steps: Annotated[int, typer.Option(help="Steps of each method per round.")] = 20,
    rounds: Annotated[int, typer.Option(help="Rounds, in which the two alternate.")] = 7,
    device: Annotated[str | None, typer.Option(help="cpu or cuda.", show_default="cuda if available")] = None,
    data_root: Annotated[
        Path | None, typer.Option(help="Folder of the data sets.", show_default="$ADIW_DATA or data")
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes that decode images.")] = WORKERS,
    capture: Annotated[bool, typer.Option(help="On a GPU, replay the step as a graph.")] = True,
    compiled: Annotated[bool, typer.Option("--compile", help="Use torch.compile.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Time a training step with uniform weights and with a method, side by side."""
    given = {key: value for key, value in locals().items() if key in Settings.__dataclass_fields__}
    with one_line_errors():
        settings = resolve({key: value for key, value in given.items() if value is not None})
        for name, value, least in (("steps", steps, 1), ("rounds", rounds, 1), ("workers", workers, 0)):
            if value < least:
                raise SettingsError(f"--{name} must be at least {least}, got {value}")
        engine = Engine(None if device is None else device_named(device), workers, capture, compiled, say)
        found = compare(settings, data_root, engine, steps, rounds)
    print(json.dumps([time.as_dict() for time in found]) if as_json else to_text(_table(found, settings)), end="")
    if as_json:
        print()


def _table(found: list[StepTime], settings: Settings) -> Grid:
    head = [Head(name) for name in ("weights", "ms / step", "ratio", "state MiB", "peak MiB")]
    rows = [
        [Box(time.method), Box(f"{time.milliseconds:.3f}"), Box(f"{time.ratio:.2f}"), *map(_mebibytes, memory)]
        for time in found
        for memory in [(time.state_bytes, time.peak_bytes)]
    ]
    title = f"A training step on {settings.dataset}, {settings.model}, batches of {settings.batch}"
    return Grid(title, head, rows, ["Peak memory is measured on a GPU only."] if found[0].peak_bytes is None else [])


def _mebibytes(size: int | None) -> Box:
    return Box("-" if size is None else f"{size / 2**20:.2f}")
