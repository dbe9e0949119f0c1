"""``adiw report``: one page for a run, a folder of runs, or a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adiw.cli.console import one_line_errors, working
from adiw.cli.run import Quiet
from adiw.reports.folders import explain_bad_files, read_results
from adiw.reports.report_page import render_report


def report(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Folder of a run, of several runs, or of a sweep.", show_default=False),
    ],
    out: Annotated[Path | None, typer.Option(help="File to write [default: DIR/index.html].")] = None,
    quiet: Quiet = False,
) -> None:
    """Write a self-contained HTML page with a summary, tables, curves, weights and, for images, pictures."""
    with one_line_errors():
        with explain_bad_files(folder), working("reading the runs", quiet):
            text = render_report(read_results(folder))
        file = out or folder / "index.html"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    print(f"Written: {file}")
