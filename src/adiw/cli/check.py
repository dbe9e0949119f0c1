"""``adiw check``: a look at a data set before any training."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from adiw.cli.console import one_line_errors, progress_bar
from adiw.cli.run import DataRoot, Quiet
from adiw.cli.settings_options import flag
from adiw.data import DATASETS
from adiw.experiments.data_check import FOLDS, Finding, check_data
from adiw.experiments.settings import HOLD_OUT, Settings, SettingsError, resolve, unknown
from adiw.experiments.splits import load_splits
from adiw.reports.grid import Box, Grid, Head, to_text

MOST_CLASSES = 20  # in the table


def _help(name: str) -> str:
    return f"{Settings.__dataclass_fields__[name].metadata['text']}."


def check(
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help="A table, a folder of tables or images, or a data set of 'adiw list'."),
    ],
    target: Annotated[str | None, typer.Option(help=_help("target"))] = None,
    shift: Annotated[str | None, typer.Option(help=_help("shift"))] = None,
    trusted: Annotated[int | None, typer.Option(help=_help("trusted"))] = None,
    trusted_file: Annotated[str | None, typer.Option(help=_help("trusted_file"))] = None,
    trusted_folder: Annotated[str | None, typer.Option(help=_help("trusted_folder"))] = None,
    seed: Annotated[int, typer.Option(help=_help("seed"))] = 0,
    data_root: DataRoot = None,
    quiet: Quiet = False,
    as_json: Annotated[bool, flag("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Compare the training and the trusted samples of a data set, and say how many trusted samples are enough."""
    with one_line_errors():
        options = {"target": target, "shift": shift, "trusted": trusted, "seed": seed}
        options |= {"trusted_file": trusted_file, "trusted_folder": trusted_folder}
        given = {**source(data), **{name: value for name, value in options.items() if value is not None}}
        splits = load_splits(resolve(given), data_root)
        with progress_bar("folds", quiet or as_json) as bar:
            task = bar.add_task("quick model", total=2 * FOLDS, note="")
            found = check_data(splits, HOLD_OUT, seed, lambda: bar.update(task, advance=1))
    if as_json:
        print(json.dumps({"classes": list(splits.data.classes), "findings": [asdict(each) for each in found]}))
        return
    sizes = f"{len(splits.train)} training, {len(splits.trusted)} trusted and {len(splits.test)} test samples"
    print(to_text(_mix_table(found[0], splits.data.classes, f"{data}: {sizes}")))
    for each in found:
        print(f"{'!' if each.warns else ' '} {each.name}: {each.sentence}")


def source(data: str) -> dict[str, Any]:
    """The settings dataset and path of a data set by name, or of a user's file or folder.

    >>> source("digits"), source("my/table.csv")
    ({'dataset': 'digits'}, {'dataset': 'csv', 'path': 'my/table.csv'})
    """
    path = Path(data)
    if data in DATASETS and data not in ("csv", "imagefolder"):
        return {"dataset": data}
    if data in ("csv", "imagefolder"):
        raise SettingsError(f"{data} is a kind of data: name the file or folder, such as adiw check tables/my.csv")
    if not path.exists() and not path.suffix:
        raise unknown(
            "data set, file or folder", data, [name for name in DATASETS if name not in ("csv", "imagefolder")]
        )
    images = path.is_dir() and (path / "train").is_dir()
    return {"dataset": "imagefolder" if images else "csv", "path": data}


def _mix_table(mix: Finding, classes: tuple[str, ...], title: str) -> Grid:
    """The shares of the classes, those that differ most first if there are many."""
    rows = list(zip(classes, mix.figures["train"], mix.figures["trusted"], strict=True))
    notes = []
    if len(rows) > MOST_CLASSES:
        rows.sort(key=lambda row: -abs(row[1] - row[2]))
        notes = [f"The {MOST_CLASSES} of {len(rows)} classes that differ most."]
    boxes = [[Box(str(name)), Box(f"{a:.1f}"), Box(f"{b:.1f}")] for name, a, b in rows[:MOST_CLASSES]]
    return Grid(title, [Head("class"), Head("training %"), Head("trusted %")], boxes, notes)
