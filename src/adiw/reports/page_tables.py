"""Results as HTML tables: rows by columns, what is not finished is said, the paper's figure beside ours."""

from __future__ import annotations

from html import escape

from adiw.reports.markup import attribute
from adiw.reports.page_model import Cell, Page

NAMES = {"accuracy": "Accuracy", "top5": "Top-5 accuracy"}
UNITS = {"accuracy": "%", "top5": "%", "seconds": "s"}


def tables(page: Page) -> str:
    """A table for each measure, and one for the time where it is known."""
    parts = [_measure(page, measure) for measure in page.measures]
    timed = any(page.seconds(row, column).mean is not None for row in page.rows for column in page.columns)
    if timed and len(page.columns) > 1:
        alone = " Each measured alone on the device, the first epoch left out." if page.planned is not None else ""
        cells = {(row, column): page.seconds(row, column) for row in page.rows for column in page.columns}
        parts.append(_section("Seconds per epoch", f"Training only.{alone}", _grid(page, cells, "seconds")))
    return "".join(parts)


def _measure(page: Page, measure: str) -> str:
    cells = {(row, column): page.cell(row, column, measure) for row in page.rows for column in page.columns}
    extra = _extra(page) if len(page.columns) == 1 else {}
    return _section(NAMES.get(measure, measure), explanation(page, cells), _grid(page, cells, measure, extra))


def explanation(page: Page, cells: dict[tuple[str, str], Cell]) -> str:
    """What the figures are."""
    text = "In percent, "
    if page.pooled:
        text += "mean (std) over the last ten epochs of all finished trials."
    else:
        several = any(cell.std is not None for cell in cells.values())
        text += f"mean of the last ten epochs{'; in brackets the std between seeds' if several else ''}."
    if any(cell.paper is not None for cell in cells.values()):
        text += " Below ours: the paper's figure, and ours less the paper's."
    return text


def _extra(page: Page) -> dict[str, list[str]]:
    """Where there is one column: how many trials are done and how long an epoch takes."""
    column = page.columns[0]
    extra = {"trials": [str(sum(t.status == "done" for t in page.of(row, column))) for row in page.rows]}
    times = [page.seconds(row, column) for row in page.rows]
    if any(cell.mean is not None for cell in times):
        extra["s / epoch"] = [_figure(cell, "seconds") for cell in times]
    return extra


def _grid(
    page: Page, cells: dict[tuple[str, str], Cell], measure: str, extra: dict[str, list[str]] | None = None
) -> str:
    """The table itself; ``extra`` holds columns of finished HTML cells."""
    extra = extra or {}
    unit = "s / epoch" if measure == "seconds" else f"{NAMES.get(measure, measure).lower()} % (std)"
    heads = [unit] if len(page.columns) == 1 else list(page.columns)
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in ["method", *heads, *extra])
    lines = []
    for place, row in enumerate(page.rows):
        found = "".join(f"<td>{_figure(cells[row, column], measure)}</td>" for column in page.columns)
        found += "".join(f"<td>{column[place]}</td>" for column in extra.values())
        lines.append(f'<tr class="of" data-name={attribute(row)}><th scope="row">{escape(row)}</th>{found}</tr>')
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _figure(cell: Cell, measure: str) -> str:
    """A cell's content as HTML."""
    digits = 3 if measure == "seconds" else 2
    if cell.mean is None:
        text = '<span class="none">-</span>'
    else:
        spread = f' <span class="std">({cell.std:.{digits}f})</span>' if cell.std is not None else ""
        text = f"<b>{cell.mean:.{digits}f}</b>{spread}"
    if cell.paper is not None:
        spread = f" ({cell.paper_std:.2f})" if cell.paper_std is not None else ""
        ours = "" if measure == "seconds" else _difference(cell)  # the paper's hardware is another
        text += f'<span class="paper">paper {cell.paper:.2f}{spread}{ours}</span>'
    return text + (f'<span class="note">{escape(cell.note)}</span>' if cell.note else "")


def _difference(cell: Cell) -> str:
    if cell.difference is None:
        return ""
    return f' <span class="difference">{cell.difference:+.2f}</span>'


def _section(title: str, text: str, table: str) -> str:
    name = attribute(f"table: {title}")
    box = f'<div class="scroll" tabindex="0" role="region" aria-label={name}>{table}</div>'
    return f'<section class="table"><h2>{escape(title)}</h2><p class="quiet">{escape(text)}</p>{box}</section>'
