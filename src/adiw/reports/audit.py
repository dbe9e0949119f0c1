"""The audit of a run: which folders have one, and its sentences, its CSV file and its page.

The page is self-contained: a table to filter and sort, with the picture or the row of each sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from adiw.experiments.audit_files import read_audit
from adiw.label_audit import DUPLICATE, Audit
from adiw.reports.folders import is_sweep, read_run, read_sweep
from adiw.reports.pictures import Picture, load_pictures
from adiw.reports.render_template import render

ON_PAGE, MOST_ON_PAGE = 200, 1000  # samples on the page: at least, and at most to show all before the cut-off
SHOWN_COLUMNS = 30  # of the samples' own columns; audit.csv has all
NAMED = 5  # folders in an error message; further ones are counted


def load_audit(folder: Path) -> Audit:
    """The audit of the run in this folder; an error if it has not ended well."""
    run = read_run(one_run(folder))
    if run.status == "unfinished":
        raise ValueError(f"the run in {folder} has not finished: continue it with adiw run --resume")
    if run.status == "dead":
        raise ValueError(f"the run in {folder} is dead ({run.reason}): its losses do not rank the labels")
    return read_audit(folder)


def title_of(folder: Path) -> str:
    """The title of a run's audit."""
    run = read_run(folder)
    data = run.settings.get("path") or run.settings.get("dataset", "its data")
    return f"Label audit: {run.method} on {data}"


def sentences(audit: Audit) -> list[str]:
    """What to do, what the ranking is, and how good it is where that is known."""
    found = [audit.advice, f"{len(audit.order)} training samples, least trusted first.{_disagreements(audit)}"]
    if audit.classes:
        found.append(
            "Trust is the geometric mean, over training, of the network's probability of the given label: "
            "near 0 for a suspicious label."
        )
    else:
        found.append(
            "Trust is exp(-loss / median loss) of the mean loss over training: near 0 for a suspicious target."
        )
    found.append(f"The number of a sample is its {audit.numbering}.")
    return [*found, quality_line(audit)]


def quality_line(audit: Audit) -> str:
    """AUROC and precision of the ranking, or that they are not known."""
    quality = audit.quality()
    if quality is None or audit.true is None:
        return "How good this ranking is cannot be measured: it is not known which labels are wrong."
    area, share = quality
    wrong = int((audit.given != audit.true)[audit.order].sum())
    return (
        f"{wrong} labels are known to be wrong: AUROC {area:.4f}; {share:.1%} of the {wrong} least trusted samples "
        f"are mislabelled (precision)."
    )


def _disagreements(audit: Audit) -> str:
    """How many predictions differ from the labels, and how many samples have a near duplicate with another label."""
    if not audit.classes or audit.predicted is None:
        return ""
    differ = int((audit.given != audit.predicted)[audit.order].sum())
    text = f" The network's prediction differs from {differ} of the labels."
    if audit.distance is None:
        return text
    near = int((audit.distance[audit.order] <= DUPLICATE).sum())
    return f"{text} {near} of the compared samples have a near duplicate with another label." if near else text


def one_run(folder: Path) -> Path:
    """The folder itself, if it is a run's; otherwise an error that names the runs it holds."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder: name the folder of a finished run")
    if is_sweep(folder):
        trials = [(cell, trial) for cell in read_sweep(folder).cells.values() for trial in cell.trials]
        names = [f"{trial.folder} ({c.row}, {c.column}, trial {trial.number})" for c, trial in trials if trial.folder]
        raise ValueError(f"{folder} is a sweep: {_choose(names)}")
    if not (folder / "config.json").exists():
        names = [str(file.parent) for file in sorted(folder.rglob("config.json"))]
        what = "holds several runs" if names else "is not a run's folder (it has no config.json)"
        raise ValueError(f"{folder} {what}: {_choose(names)}")
    return folder


def _choose(names: list[str]) -> str:
    if not names:
        return "no run's folder is below it; name the folder of a finished run"
    rest = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"audit one of its runs: {', '.join(names[:NAMED])}{rest}"


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
