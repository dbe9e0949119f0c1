"""``adiw check``: training and trusted samples compared before any training."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from adiw.cli.console import on_bars, one_line_errors, progress_bar, timed_lines, working
from adiw.cli.run import DataRoot, Quiet
from adiw.cli.settings_options import HELP, flag, settings_options, with_data
from adiw.experiments.data_check import Finding, check_data
from adiw.experiments.settings import HOLD_OUT, resolve
from adiw.experiments.splits import load_splits
from adiw.reports.grid import Box, Grid, Head, to_text

MOST_CLASSES = 20  # in the table


@settings_options("target", "shift", "trusted", "trusted_file", "trusted_folder", "image_size", "augment", "seed")
def check(
    given: dict[str, Any],
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help=f"{HELP}."),
    ],
    data_root: DataRoot = None,
    quiet: Quiet = False,
    as_json: Annotated[bool, flag("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Compare the training and the trusted samples of a data set, and say how many trusted samples are enough."""
    with one_line_errors():
        settings = resolve(with_data(given, data))
        silent = quiet or as_json
        with working("reading the data", silent):
            splits = load_splits(settings, data_root)
        with progress_bar("", silent) as bar:
            show, say_line = on_bars(bar), timed_lines(silent or not bar.disable)

            def tell(what: str, done: int, total: int) -> None:
                show(what, done, total)
                say_line(f"{what} {done:,} of {total:,}")

            found = check_data(splits, HOLD_OUT, settings.seed, tell)
    if as_json:
        print(json.dumps({"classes": list(splits.data.classes), "findings": [asdict(each) for each in found]}))
        return
    sizes = f"{len(splits.train)} training, {len(splits.trusted)} trusted and {len(splits.test)} test samples"
    print(to_text(_mix_table(found[0], splits.data.classes, f"{data}: {sizes}")))
    for each in found:
        print(f"{'!' if each.warns else ' '} {each.name}: {each.sentence}")


def _mix_table(mix: Finding, classes: tuple[str, ...], title: str) -> Grid:
    """The shares of the classes, those that differ most first if there are many."""
    rows = list(zip(classes, mix.figures["train"], mix.figures["trusted"], strict=True))
    notes = []
    if len(rows) > MOST_CLASSES:
        rows.sort(key=lambda row: -abs(row[1] - row[2]))
        notes = [f"The {MOST_CLASSES} of {len(rows)} classes that differ most."]
    boxes = [[Box(str(name)), Box(f"{a:.1f}"), Box(f"{b:.1f}")] for name, a, b in rows[:MOST_CLASSES]]
    return Grid(title, [Head("class"), Head("training %"), Head("trusted %")], boxes, notes)
