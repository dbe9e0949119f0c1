"""``adiw audit``: the labels to check first."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from adiw.cli.console import one_line_errors, working
from adiw.cli.run import Quiet
from adiw.label_audit import Audit
from adiw.reports.audit import MOST_ON_PAGE, ON_PAGE, load_audit, quality_line, save, title_of
from adiw.reports.folders import explain_bad_files
from adiw.reports.grid import Box, Grid, Head, to_text

IN_TERMINAL = 10  # samples, without --top


def audit(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a finished run.", show_default=False)],
    top: Annotated[
        int | None,
        typer.Option(
            help=f"Samples to list [default: all in the CSV; on the page {ON_PAGE}, or those before the cut-off up "
            f"to {MOST_ON_PAGE}].",
            min=1,
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder for audit.csv and audit.html [default: DIR].")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Rank the training samples by trust, least first, as a CSV file and a page: likely wrong labels come first."""
    with one_line_errors():
        target = out or folder
        with explain_bad_files(folder):
            with working("writing the audit", quiet):
                found = load_audit(folder)
                save(found, target, top, title_of(folder), folder)
            print(to_text(_table(found, min(top or IN_TERMINAL, IN_TERMINAL))))
    print(f"Written: {target / 'audit.csv'}, {target / 'audit.html'}")


def _table(found: Audit, rows: int) -> Grid:
    """The first few samples."""
    table = found.table(rows)
    numbers = {name: [f"{value:.3f}" for value in table[name]] for name in ("trust", "mean_loss", "weight")}
    texts = [
        [str(v) for v in table[name]] for name in ("rank", "number", "given_name", "predicted_name", "suggested_name")
    ]
    lines = zip(*texts, *numbers.values(), strict=True)
    heads = ("rank", "number", "label", "predicted", "suggested", "trust", "mean loss", "last weight")
    boxes = [[Box(text) for text in line] for line in lines]
    notes = [found.advice, f"The number of a sample is its {found.numbering}.", quality_line(found)]
    return Grid(
        f"The least trusted of {len(found.order)} training samples", [Head(name) for name in heads], boxes, notes
    )
