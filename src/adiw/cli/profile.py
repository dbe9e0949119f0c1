"""``adiw profile``: where the steps of DIW and ADIW spend their time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from adiw.cli.console import one_line_errors, progress_bar
from adiw.cli.run import device_named, width_named
from adiw.experiments.implementations import IMPLEMENTATIONS, settings_of
from adiw.experiments.profile import FILE, profile_all
from adiw.experiments.profile_plan import Plan
from adiw.experiments.run import WORKERS
from adiw.experiments.settings import Settings, SettingsError, resolve
from adiw.reports.grid import to_text
from adiw.reports.stage_table import stage_tables


def profile(
    dataset: Annotated[str, typer.Option(help="Data set, see 'adiw list'.")] = "digits",
    implementation: Annotated[
        list[str] | None, typer.Option(help=f"One of {', '.join(IMPLEMENTATIONS)}; repeatable [default: all].")
    ] = None,
    profiled_epochs: Annotated[str, typer.Option(help="Epochs to profile, from 1, such as 1,5,10,20.")] = "1",
    iterations: Annotated[int | None, typer.Option(help="End every epoch after this many iterations.")] = None,
    skip: Annotated[int, typer.Option(help="Iterations skipped in a profiled epoch.")] = 10,
    stabilise: Annotated[int, typer.Option(help="Iterations after them for the profiler to settle.")] = 2,
    record: Annotated[int, typer.Option(help="Iterations recorded.")] = 10,
    method: Annotated[str | None, typer.Option(help="ADIW method of ADIW_CPU and ADIW_GPU.")] = None,
    shift: Annotated[str | None, typer.Option(help="Simulated shift such as symmetric:0.4.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for profile.json [default: runs/profile-DATASET].")] = None,
    path: Annotated[str | None, typer.Option(help="File or folder, for csv and imagefolder.")] = None,
    target: Annotated[str | None, typer.Option(help="Label column, for csv.")] = None,
    trusted: Annotated[int | None, typer.Option(help="Number of trusted samples to draw.")] = None,
    trusted_file: Annotated[str | None, typer.Option(help="File with the indices of the trusted samples.")] = None,
    trusted_folder: Annotated[str | None, typer.Option(help="Folder of trusted images, for imagefolder.")] = None,
    model: Annotated[str | None, typer.Option(help="Network, or package.module:factory.")] = None,
    width: Annotated[str | None, typer.Option(help="Kernel width of the ADIW method: a number or auto.")] = None,
    step_size: Annotated[float | None, typer.Option(help="Step size of the ADIW method.")] = None,
    batch: Annotated[int | None, typer.Option(help="Batch size.")] = None,
    val_batch: Annotated[int | None, typer.Option(help="Validation samples matched with a batch.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random.")] = None,
    bf16: Annotated[bool | None, typer.Option(help="Forward pass in bfloat16, on a GPU.")] = None,
    channels_last: Annotated[bool | None, typer.Option(help="Image layout with channels innermost.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda [default: cuda where there is one].")] = None,
    data_root: Annotated[
        Path | None, typer.Option(help="Folder of the data sets [default: $ADIW_DATA or data].")
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes that load samples, for each loader.")] = WORKERS,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar: for logs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print profile.json instead of the table.")] = False,
) -> None:
    """Time every stage of an eager step, as in the paper's profile, for the implementations from DIW to ADIW."""
    given = {
        key: value for key, value in locals().items() if key in Settings.__dataclass_fields__ and value is not None
    }
    with one_line_errors():
        given |= {} if width is None else {"width": width_named(width)}
        plan = Plan(_epochs(profiled_epochs), skip, stabilise, record, iterations)
        settings = settings_of(resolve(given), implementation or list(IMPLEMENTATIONS))
        if workers < 0:
            raise SettingsError(f"workers must be at least 0, got {workers}")
        where = None if device is None else device_named(device)
        folder = out or Path("runs") / f"profile-{dataset}"
        with progress_bar("epochs", quiet or as_json) as bar:
            task = bar.add_task("", total=max(plan.epochs), note="")
            content = profile_all(
                settings,
                plan,
                folder,
                data_root,
                where,
                workers,
                lambda name, epoch: bar.update(task, description=name, completed=epoch),
            )
    if as_json:
        print(json.dumps(content))
    else:
        print("\n".join(map(to_text, stage_tables(content))))
        print(f"figures are in {folder / FILE}")


def _epochs(text: str) -> tuple[int, ...]:
    """
    >>> _epochs("1,5, 10")
    (1, 5, 10)
    """
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(
            f"profiled epochs must be numbers with commas between, such as 1,5,10, got {text!r}"
        ) from None
