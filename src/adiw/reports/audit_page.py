"""The audit as a self-contained HTML page: a table to filter and sort, with the weight history of each sample."""

from __future__ import annotations

from typing import Any, NamedTuple

from adiw.reports.audit import Array, Audit
from adiw.reports.pictures import Picture, load_pictures
from adiw.reports.render_template import render

WIDTH, HEIGHT = 120, 28  # of a sparkline, in pixels


def render_audit(audit: Audit, top: int) -> str:
    """The page with the ``top`` least trusted samples."""
    shown = audit.order[:top].tolist()
    pictures = {picture.index: picture for picture in load_pictures(audit.folder)}
    labels = sorted({int(label) for label in audit.given[shown]})
    return render(
        "audit.html",
        title=f"Label audit: {audit.run.method} on {audit.run.settings.get('dataset', 'its data')}",
        summary=sentences(audit),
        labels={label: audit.name(label) for label in labels},
        total=len(audit.order),
        truth_known=audit.true is not None,
        pictures=bool(pictures),
        samples=[_sample(audit, rank, i, pictures.get(i)) for rank, i in enumerate(shown, start=1)],
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


class Sample(NamedTuple):
    """A row of the table: the values to sort and filter by, and the cells as (text, whether it is highlighted)."""

    keys: dict[str, object]
    image: str
    texts: list[tuple[str, bool]]
    spark: Sparkline | None


def _sample(audit: Audit, rank: int, i: int, picture: Picture | None) -> Sample:
    given, predicted = int(audit.given[i]), int(audit.predicted[i])
    labels = {"given": given, "predicted": predicted, **({} if audit.true is None else {"true": int(audit.true[i])})}
    numbers = {"trust": audit.scores[i], "weight": audit.weights[i], "mean": audit.mean_weights[i]}
    keys: dict[str, Any] = {"rank": rank, "index": int(audit.original[i]), "label": given}
    keys |= {key: audit.name(label) for key, label in labels.items()}
    keys |= {key: f"{value:.6g}" for key, value in numbers.items()}
    return Sample(
        keys=keys,
        image=picture.image if picture else "",
        texts=[
            (str(keys["index"]), False),
            *((audit.name(label), label != given) for label in labels.values()),
            *((f"{value:.3f}", False) for value in numbers.values()),
        ],
        spark=sparkline(audit.history[:, i]),
    )


class Sparkline(NamedTuple):
    """A small line chart: its points, the height of the line at weight one, and its description."""

    points: str
    one: str
    text: str
    width: int = WIDTH
    height: int = HEIGHT


def sparkline(values: Array) -> Sparkline | None:
    """The weights of a sample over the epochs; None without any.

    >>> sparkline(__import__("numpy").array([1.0, 0.0])).points
    '0.0,14.0 120.0,26.0'
    """
    if not len(values):
        return None
    high = max(2.0, float(values.max()))
    values = values if len(values) > 1 else values.repeat(2)  # a line needs two points
    y = [HEIGHT - 2 - (HEIGHT - 4) * float(value) / high for value in (*values, 1.0)]
    points = " ".join(f"{WIDTH * k / (len(values) - 1):.1f},{height:.1f}" for k, height in enumerate(y[:-1]))
    text = f"from {values[0]:.2f} to {values[-1]:.2f}, at most {values.max():.2f}"
    return Sparkline(points, f"{y[-1]:.1f}", text)
