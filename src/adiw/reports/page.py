"""One self-contained HTML page for a run, several runs or a sweep: words, tables, curves, weights, pictures."""

from __future__ import annotations

from html import escape

from adiw.reports.charts import chart_data
from adiw.reports.gallery import galleries
from adiw.reports.markup import attribute, fill
from adiw.reports.page_model import Page
from adiw.reports.page_tables import NAMES, tables
from adiw.reports.summary import sentences

# What is drawn over the epochs besides the measures: title, curves, what to know.
HEALTH = (
    ("Effective sample size", ("ess",), "How many equally weighted samples the weights are worth."),
    ("Mean weight", ("weight_mean",), "One keeps the learning rate what it was; far from it, it drifts."),
    (
        "Mean weight of intact / mislabelled",
        ("weight_intact", "weight_mislabelled"),
        "Solid and first number: intact. Dashed and second: mislabelled.",
    ),
)


def render(page: Page) -> str:
    """The page. Everything that came from outside is escaped."""
    data = chart_data(page)
    drawn = {name for cell in data["cells"] for name in cell["curves"]}
    body = [
        f"<header><h1>{escape(page.title)}</h1>{_paragraph(page.about)}</header>",
        f'<ul class="summary">{"".join(f"<li>{escape(text)}</li>" for text in sentences(page))}</ul>',
        _controls(page),
        tables(page),
        _accuracy(page, drawn),
        _health(drawn),
        _weights(data),
        galleries(page),
        _facts(page),
    ]
    return fill(title=page.title, body="\n".join(body), data=data, scripts=("axes.js", "charts.js", "page.js"))


def _paragraph(text: str) -> str:
    return f'<p class="about">{escape(text)}</p>' if text else ""


def _controls(page: Page) -> str:
    """What is shown: methods by name or by click, and the setting that the charts are about."""
    if len(page.rows) == 1 and len(page.columns) == 1:
        return ""
    keys = "".join(
        f'<button type="button" class="key" data-name={attribute(row)} data-row="{i}" aria-pressed="true">'
        f"{escape(row)}</button>"
        for i, row in enumerate(page.rows)
    )
    search = (
        '<input id="filter" type="search" placeholder="Filter methods, such as adiw" aria-label="Filter methods">'
    )
    every = '<button type="button" id="all">all</button><button type="button" id="none">none</button>'
    nobody = '<p id="nobody" class="quiet" hidden>No method is shown: choose some above, or clear the filter.</p>'
    methods = f'<div class="row">{search}{every}</div><div id="keys">{keys}</div>{nobody}'
    return f'<nav class="controls" aria-label="What is shown">{methods}{_columns(page)}</nav>'


def _columns(page: Page) -> str:
    if len(page.columns) == 1:
        return ""
    begun = {trial.column for trial in page.trials if trial.curves}
    first = next((i for i, column in enumerate(page.columns) if column in begun), 0)
    choices = "".join(
        f'<label><input type="radio" name="column" value="{i}"{" checked" * (i == first)}>'
        f"<span>{escape(column)}</span></label>"
        for i, column in enumerate(page.columns)
    )
    return f'<fieldset id="columns"><legend>Setting of the charts</legend>{choices}</fieldset>'


def _accuracy(page: Page, drawn: set[str]) -> str:
    measures = [measure for measure in page.measures if measure in drawn]
    if not measures:
        return '<section id="curves"><h2>Curves</h2><p>No epoch has been run yet.</p></section>'
    charts = "".join(_chart(f"{NAMES.get(m, m)} (%)", (m,), "", "tall") for m in measures)
    several = len(page.trials) > len(page.rows) * len(page.columns)
    text = "Point at a chart, or focus it and use the arrow keys, to read values. "
    text += "Lines are means of the finished trials, bands their range. " if several else ""
    others = any(trial.status != "done" for trial in page.trials)
    text += "Thin lines with a cross: trials that did not finish." if others else ""
    return f'<section id="curves"><h2>Over the epochs</h2><p class="quiet">{text}</p>{charts}</section>'


def _health(drawn: set[str]) -> str:
    charts = [_chart(title, names, text) for title, names, text in HEALTH if drawn & set(names)]
    inside = f'<div class="grid">{"".join(charts)}</div>'
    return f'<section id="health"><h2>Health of the weights</h2>{inside}</section>' if charts else ""


def _chart(title: str, curves: tuple[str, ...], text: str, kind: str = "") -> str:
    """A place that the script draws curves into."""
    quiet = f'<p class="quiet">{escape(text)}</p>' if text else ""
    zoom = '<label class="zoom"><input type="checkbox"> zoom in on the later epochs</label>' if kind == "tall" else ""
    head = f'<div class="head"><figcaption>{escape(title)}</figcaption>{zoom}</div>'
    return (
        f'<figure class="chart" data-curves="{" ".join(curves)}">{head}{quiet}'
        f'<div class="plot {kind}" tabindex="0" role="img" aria-label={attribute(title + " over the epochs")}></div>'
        '<p class="readout"></p></figure>'
    )


def _weights(data: dict[str, list[dict[str, object]]]) -> str:
    """A place for the histograms, where there is one to draw."""
    if not any(cell["weights"] for cell in data["cells"]):
        return ""
    text = (
        "Share of samples at each weight at the end of each method's first finished run, on a square-root scale; "
        "the last bin also holds what lies beyond."
    )
    place = '<div class="grid" id="histograms"></div>'
    return f'<section id="weights"><h2>Weights</h2><p class="quiet">{text}</p>{place}</section>'


def _facts(page: Page) -> str:
    if not page.facts:
        return ""
    lines = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in page.facts)
    return f'<details class="facts"><summary>Settings and provenance</summary><dl>{lines}</dl></details>'
