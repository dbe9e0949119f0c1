"""``adiw audit``: the labels to check first."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from adiw.cli.console import one_line_errors
from adiw.reports.audit import Audit, load_audit, write_csv
from adiw.reports.audit_page import quality_line, render_audit
from adiw.reports.folders import explain_bad_files

ON_PAGE, IN_TERMINAL = 200, 10  # samples, without --top


def audit(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a finished run.", show_default=False)],
    top: Annotated[
        int | None, typer.Option(help=f"Samples to list [default: all in the CSV, {ON_PAGE} on the page].", min=1)
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder for audit.csv and audit.html [default: DIR].")
    ] = None,
) -> None:
    """Rank the training samples by trust, least first, as a CSV file and a page: likely wrong labels come first."""
    with one_line_errors():
        target = out or folder
        with explain_bad_files(folder):
            found = load_audit(folder)
            target.mkdir(parents=True, exist_ok=True)
            with (target / "audit.csv").open("w", newline="", encoding="utf-8") as file:
                write_csv(found, file, top)
            (target / "audit.html").write_text(render_audit(found, top or ON_PAGE), encoding="utf-8")
            Console().print(_table(found, min(top or IN_TERMINAL, IN_TERMINAL)))
            print(quality_line(found))
    print(f"Written: {target / 'audit.csv'}, {target / 'audit.html'}")


def _table(found: Audit, rows: int) -> Table:
    """The first few samples."""
    table = Table(title=f"The least trusted of {len(found.order)} training samples")
    table.add_column("rank", justify="right")
    table.add_column("sample", justify="right")
    table.add_column("label")
    table.add_column("predicted")
    for name in ("trust", "last weight", "mean weight"):
        table.add_column(name, justify="right")
    for rank, i in enumerate(found.order[:rows].tolist(), start=1):
        names = (escape(found.name(values[i])) for values in (found.given, found.predicted))
        numbers = (f"{values[i]:.3f}" for values in (found.scores, found.weights, found.mean_weights))
        table.add_row(str(rank), str(found.original[i]), *names, *numbers)
    return table
