"""``adiw report``: one page for a run, a folder of runs, or a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adiw.cli.console import one_line_errors
from adiw.reports.page import render
from adiw.reports.records import load_page
from adiw.reports.run_folders import as_written


def report(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="A run's folder, one that holds runs, or a sweep's.", show_default=False),
    ],
    out: Annotated[Path | None, typer.Option(help="File to write [default: DIR/index.html].")] = None,
) -> None:
    """Write a self-contained HTML page: summary, tables, curves, weights, and pictures where there are some."""
    with one_line_errors():
        if not folder.is_dir():
            raise FileNotFoundError(
                f"{folder} is not a folder: name the folder of a run, of several runs or of a sweep"
            )
        with as_written(folder):
            text = render(load_page(folder))
        file = out or folder / "index.html"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    print(f"The page: {file}")
