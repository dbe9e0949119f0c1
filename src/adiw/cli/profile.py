"""``adiw profile``: what a method adds to the time and memory of a training step."""

from __future__ import annotations

import json
from functools import partial
from typing import Annotated, Any

import typer

from adiw.cli.console import one_line_errors, say
from adiw.cli.run import Capture, Compiled, DataRoot, Device, Workers, check_at_least, device_named
from adiw.cli.settings_options import parse_width, settings_options
from adiw.experiments.run import WORKERS, Engine
from adiw.experiments.settings import Settings, resolve
from adiw.experiments.step_time import StepTime, compare
from adiw.reports.grid import Box, Grid, Head, to_text

# A timed step does not depend on them.
UNUSED = ("epochs", "steps", "decay", "decay_every", "selection", "hold_out", "fine_tune_epochs")


@partial(settings_options, without=UNUSED)
def profile(
    given: dict[str, Any],
    steps: Annotated[int, typer.Option(help="Number of steps of each method per round.")] = 20,
    rounds: Annotated[int, typer.Option(help="Number of rounds, in which the two methods alternate.")] = 7,
    device: Device = None,
    data_root: DataRoot = None,
    workers: Workers = WORKERS,
    capture: Capture = True,
    compiled: Compiled = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Compare the time and memory of a training step with a method to those with uniform weights."""
    with one_line_errors():
        settings = resolve(parse_width(given))
        check_at_least(1, steps=steps, rounds=rounds)
        check_at_least(0, workers=workers)
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
