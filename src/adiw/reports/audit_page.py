"""The audit as a self-contained HTML page: a table to filter and sort, with the weight history of each sample."""

from __future__ import annotations

from adiw.reports.audit import Audit, ranked
from adiw.reports.pictures import load_pictures
from adiw.reports.render_template import render


def render_audit(audit: Audit, top: int) -> str:
    """The page with the ``top`` least trusted samples."""
    lines = ranked(audit, top)
    pictures = {picture.index: picture for picture in load_pictures(audit.folder)}
    return render(
        "audit.html",
        title=f"Label audit: {audit.run.method} on {audit.run.settings.get('dataset', 'its data')}",
        summary=sentences(audit),
        labels={label: audit.name(label) for label in sorted(lines["given"].unique())},
        total=len(audit.order),
        kinds=["given", "predicted"] + ["true"] * (audit.true is not None),
        pictures=pictures,
        samples=lines.to_dict("records"),
        epochs=[f"epoch_{epoch}" for epoch in audit.epochs],
    )


def sentences(audit: Audit) -> list[str]:
    """What the ranking is, and how good it is where that is known."""
    disagree = int((audit.given != audit.predicted).sum())
    split = " that remains after the selection split" if audit.run.settings.get("selection") else " as loaded"
    return [
        f"{len(audit.order)} training samples, least trusted first. "
        f"The network's prediction differs from {disagree} of the labels.",
        "Trust is the square root of a sample's weight divided by the mean weight, averaged over the epochs: "
        "0 for a sample whose weight was always zero, 1 for one whose weight was always the mean.",
        f"The sample number is the 0-based position in the training set{split}, before the shift.",
        quality_line(audit),
    ]


def quality_line(audit: Audit) -> str:
    """AUROC and precision of the ranking, or that they are not known."""
    quality = audit.quality()
    if quality is None or audit.true is None:
        return "AUROC and precision are not known: this run has no true labels that differ from the given ones."
    area, share = quality
    wrong = int((audit.given != audit.true).sum())
    return (
        f"{wrong} labels are known to be wrong: AUROC {area:.4f}; {share:.1%} of the {wrong} least trusted samples "
        f"are mislabelled (precision)."
    )
