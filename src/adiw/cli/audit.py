"""``adiw audit``: the labels to check first."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adiw.cli.console import one_line_errors
from adiw.reports.audit import Audit, load_audit, ranked, write_csv
from adiw.reports.audit_page import quality_line, render_audit
from adiw.reports.folders import explain_bad_files
from adiw.reports.grid import Box, Grid, Head, to_text

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
            print(to_text(_table(found, min(top or IN_TERMINAL, IN_TERMINAL))))
    print(f"Written: {target / 'audit.csv'}, {target / 'audit.html'}")


def _table(found: Audit, rows: int) -> Grid:
    """The first few samples."""
    lines, numbers = ranked(found, rows), ["trust", "weight", "mean_weight"]
    lines[numbers] = lines[numbers].map("{:.3f}".format)
    shown = lines[["rank", "original_index", "given_name", "predicted_name", *numbers]].astype(str)
    head = [Head(name) for name in ("rank", "sample", "label", "predicted", "trust", "last weight", "mean weight")]
    boxes = [[Box(text) for text in line] for line in shown.itertuples(index=False)]
    return Grid(f"The least trusted of {len(found.order)} training samples", head, boxes, [quality_line(found)])
