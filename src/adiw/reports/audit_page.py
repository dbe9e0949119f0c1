"""The audit as a self-contained HTML page: a table to filter and sort, with the picture or the row of each sample."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from adiw.label_audit import Audit
from adiw.reports.audit import sentences
from adiw.reports.pictures import Picture, load_pictures
from adiw.reports.render_template import render

ON_PAGE, MOST_ON_PAGE = 200, 1000  # samples on the page: at least, and at most to show all before the cut-off
SHOWN_COLUMNS = 30  # of the samples' own columns; audit.csv has all


def save(
    audit: Audit, folder: Path, top: int | None = None, title: str = "Label audit", run: Path | None = None
) -> None:
    """Write audit.csv and audit.html; ``run`` is the folder of the run that kept pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "audit.csv").open("w", newline="", encoding="utf-8") as file:
        audit.to_csv(file, top)
    pictures = [] if run is None else load_pictures(run)
    before = 0 if audit.cutoff is None else min(audit.cutoff.number, MOST_ON_PAGE)
    page = render_audit(audit, top or max(ON_PAGE, before), title, pictures)
    (folder / "audit.html").write_text(page, encoding="utf-8")


def render_audit(audit: Audit, top: int, title: str = "Label audit", pictures: Sequence[Picture] = ()) -> str:
    """The page with the ``top`` least trusted samples."""
    table = audit.table(top)
    lines = [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]
    first, *rest = sentences(audit)
    return render(
        "audit.html",
        title=title,
        verdict=first,
        summary=rest,
        samples=lines,
        total=len(audit.order),
        numbering=audit.numbering,
        kinds=[kind for kind in ("given", "predicted", "suggested", "true") if kind in table],
        classes=audit.classes,
        labels=sorted({line["given_name"] for line in lines}) if audit.classes else [],
        numbers=[name for name in ("mean_loss", "confidence", "weight", "mean_weight") if name in table],
        columns=[name for name in table if name.startswith("column ")][:SHOWN_COLUMNS],
        epochs=[name for name in table if name.startswith("epoch_")],
        neighbours="neighbour" in table,
        cutoff=audit.cutoff is not None,
        pictures={picture.index: picture for picture in pictures},
    )
