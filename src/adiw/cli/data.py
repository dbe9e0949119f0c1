"""``adiw data``: fetching data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adiw.cli.console import one_line_errors, progress_bar
from adiw.data import data_root
from adiw.data.fetch import SOURCES
from adiw.data.fetch import get as fetch
from adiw.experiments.settings import unknown

data_app = typer.Typer(help="Fetch data sets.", no_args_is_help=True)


@data_app.callback()
def data() -> None:
    """Fetch data sets."""


@data_app.command()
def get(
    name: Annotated[str, typer.Argument(help="fashion-mnist, cifar10 or cifar100.")],
    root: Annotated[Path | None, typer.Option(help="Folder of the data sets [default: $ADIW_DATA or data].")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar: for logs.")] = False,
) -> None:
    """Download a data set from its official address; every file is checked before it is kept."""
    with one_line_errors():
        if name not in SOURCES:
            raise unknown("data set", name, SOURCES)
        with progress_bar("bytes", quiet) as bar:
            task = bar.add_task(name, total=None, note="")

            def show(file: str, done: int, total: int | None) -> None:
                bar.update(task, description=file, completed=done, total=total)

            folder = fetch(name, data_root() if root is None else root, show)
    print(f"{name} is in {folder}")
