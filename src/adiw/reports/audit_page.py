"""The audit as a self-contained HTML page: a table that can be filtered and sorted, with weight histories."""

from __future__ import annotations

from html import escape

from adiw.reports.audit import Array, Audit
from adiw.reports.gallery import Picture, load_gallery
from adiw.reports.markup import attribute, fill

WIDTH, HEIGHT = 120, 28  # of a sparkline, in pixels


def render_audit(audit: Audit, top: int) -> str:
    """The page with the ``top`` least trusted samples. Everything that came from outside is escaped."""
    pictures = {picture.index: picture for picture in load_gallery(audit.run.folder)}
    rows = [_row(audit, rank, i, pictures) for rank, i in enumerate(audit.order[:top].tolist(), start=1)]
    settings = audit.run.settings
    title = f"Label audit: {audit.run.method} on {settings.get('dataset', 'its data')}"
    body = [
        f"<header><h1>{escape(title)}</h1></header>",
        f'<ul class="summary">{"".join(f"<li>{escape(text)}</li>" for text in words(audit))}</ul>',
        _controls(audit, top),
        '<div class="scroll" tabindex="0" role="region" aria-label="Samples, least trusted first">'
        f"<table><thead><tr>{_head(audit, bool(pictures))}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>",
    ]
    return fill(title=title, body="\n".join(body), data={}, scripts=("audit.js",))


def words(audit: Audit) -> list[str]:
    """What the ranking is, and how good it is where that is known."""
    n, disagree = len(audit.order), int((audit.given != audit.predicted).sum())
    found = [
        f"{n} training samples, least trusted first. The network's prediction differs from {disagree} of the labels.",
        "Trust is the root of a sample's weight over the mean weight of all, averaged over the epochs: "
        "0 for a sample that never counted, 1 for one that always counted as much as the average.",
    ]
    if audit.run.settings.get("selection"):
        found.append("Original positions count the training samples that were left after the selection split.")
    return [*found, quality_line(audit)]


def quality_line(audit: Audit) -> str:
    """AUROC and precision, or that they are not known."""
    quality = audit.quality()
    if quality is None or audit.true is None:
        return "AUROC and precision are not known: no true labels that differ from the given ones came with this run."
    area, share = quality
    wrong = int((audit.given != audit.true).sum())
    return (
        f"{wrong} labels are known to be wrong: AUROC {area:.4f}, and {share:.1%} of the {wrong} least trusted "
        f"samples are among them (precision at the true number of flips)."
    )


def _controls(audit: Audit, top: int) -> str:
    """Filters by label, by text, and by disagreement."""
    shown = audit.given[audit.order[:top]]
    options = "".join(
        f"<option value={attribute(str(label))}>{escape(audit.name(label))}</option>"
        for label in sorted({int(label) for label in shown})
    )
    select = f'<select id="label" aria-label="Given label"><option value="">all labels</option>{options}</select>'
    search = '<input id="filter" type="search" placeholder="Index or class" aria-label="Filter by index or class">'
    box = '<label class="zoom"><input id="differ" type="checkbox"> only where the prediction differs</label>'
    count = f'<p id="count" class="quiet" aria-live="polite">{len(shown)} of {len(audit.order)} samples</p>'
    return (
        f'<nav class="controls" aria-label="What is shown"><div class="row">{search}{select}</div>{box}{count}</nav>'
    )


def _head(audit: Audit, pictures: bool) -> str:
    """The columns; those with a key can be sorted by."""
    columns = [("rank", "#")]
    columns += [("", "picture")] if pictures else []
    columns += [("index", "index"), ("given", "label"), ("predicted", "predicted")]
    columns += [("true", "truth")] if audit.true is not None else []
    columns += [("trust", "trust"), ("weight", "last weight"), ("mean", "mean weight"), ("", "weight history")]
    cells = []
    for key, text in columns:
        if key:
            order = "ascending" if key == "rank" else "none"
            button = f'<button type="button" data-key="{key}">{text}</button>'
            cells.append(f'<th scope="col" aria-sort="{order}">{button}</th>')
        else:
            cells.append(f'<th scope="col">{text}</th>')
    return "".join(cells)


def _row(audit: Audit, rank: int, i: int, pictures: dict[int, Picture]) -> str:
    given, predicted, original = (int(values[i]) for values in (audit.given, audit.predicted, audit.original))
    numbers = {"trust": audit.scores[i], "weight": audit.weights[i], "mean": audit.mean_weights[i]}
    keys: dict[str, object] = {"rank": rank, "index": original, "given": audit.name(given)}
    keys |= {"label": given, "predicted": audit.name(predicted)}
    cells = [f'<th scope="row">{rank}</th>']
    if pictures:
        cells.append(f"<td>{pictures[i].image if i in pictures else ''}</td>")
    cells += [f"<td>{original}</td>", f"<td>{escape(audit.name(given))}</td>"]
    kind = ' class="differs"' if predicted != given else ""
    cells.append(f"<td{kind}>{escape(audit.name(predicted))}</td>")
    if audit.true is not None:
        true = audit.name(audit.true[i])
        keys["true"] = true
        kind = ' class="differs"' if audit.true[i] != given else ""
        cells.append(f"<td{kind}>{escape(true)}</td>")
    cells += [f"<td>{value:.3f}</td>" for value in numbers.values()]
    cells.append(f"<td>{sparkline(audit.history[:, i])}</td>")
    keys |= {key: f"{value:.6g}" for key, value in numbers.items()}
    data = " ".join(f"data-{key}={attribute(str(value))}" for key, value in keys.items())
    return f"<tr {data}>{''.join(cells)}</tr>"


def sparkline(values: Array) -> str:
    """A sample's weights over the epochs as a small line; the dotted one stands at a weight of one.

    >>> '<polyline points="0.0,14.0 120.0,26.0"/>' in sparkline(__import__("numpy").array([1.0, 0.0]))
    True
    """
    if not len(values):
        return ""
    high = max(2.0, float(values.max()))
    values = values if len(values) > 1 else values.repeat(2)  # one point would not be seen
    y = [HEIGHT - 2 - (HEIGHT - 4) * float(value) / high for value in values]
    points = " ".join(f"{WIDTH * k / (len(y) - 1):.1f},{place:.1f}" for k, place in enumerate(y))
    one = HEIGHT - 2 - (HEIGHT - 4) / high
    ruler = f'<line x1="0" x2="{WIDTH}" y1="{one:.1f}" y2="{one:.1f}"/>'
    text = attribute(f"from {values[0]:.2f} to {values[-1]:.2f}, at most {values.max():.2f}")
    return (
        f'<svg class="spark" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label={text}>{ruler}<polyline points="{points}"/></svg>'
    )
