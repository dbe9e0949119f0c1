"""``adiw data``: downloading data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress

from adiw.cli.console import one_line_errors, progress_bar
from adiw.cli.run import Quiet
from adiw.data import data_root, download

data_app = typer.Typer(help="Download data sets.", no_args_is_help=True)


@data_app.callback()
def data() -> None:
    """Download data sets."""


@data_app.command()
def get(
    name: Annotated[str, typer.Argument(help="Data set: fashion-mnist, cifar10 or cifar100.")],
    root: Annotated[Path | None, typer.Option(help="Folder of the data sets [default: $ADIW_DATA or data].")] = None,
    quiet: Quiet = False,
) -> None:
    """Download a data set from its official address and check the digest of every file."""
    with one_line_errors(), progress_bar("bytes", quiet) as bar:
        folder = download.get(name, data_root() if root is None else root, _DownloadBar(name, bar))
    print(f"{name} is in {folder}")


class _DownloadBar:
    """Shows the bytes of one file after the other; pooch sets ``total`` before each file and calls the methods."""

    def __init__(self, name: str, bar: Progress) -> None:
        self.bar = bar
        self.task = bar.add_task(name, total=None, note="")

    @property
    def total(self) -> int:
        return int(self.bar.tasks[0].total or 0)

    @total.setter
    def total(self, size: int) -> None:
        self.bar.reset(self.task, total=size)

    def update(self, size: int) -> None:
        self.bar.update(self.task, advance=size)

    def reset(self) -> None:
        self.bar.reset(self.task)

    def close(self) -> None: ...
