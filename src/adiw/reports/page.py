"""One self-contained HTML page for a set of runs: table, accuracy curves, weights of intact and mislabelled."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from string import Template

import numpy as np

from adiw.reports import svg
from adiw.reports.results import Result, Row, by_method

_PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; color: #1a1a1a; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: right; padding: .3rem .6rem; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
.scroll { overflow-x: auto; } .chart { width: 100%; height: auto; } .chart text { font-size: 12px; fill: #444; }
.key { border: 0; background: none; font: inherit; cursor: pointer; }
.key, .name { padding: .1rem .5rem .1rem 0; }
.key[aria-pressed=false] { opacity: .35; } .off { display: none; } #at { min-height: 1.5em; color: #444; }
</style></head><body>
<h1>$title</h1>
<p>$summary</p>
<h2>Accuracy</h2><div class="scroll">$table</div>
<h2>Accuracy over the epochs</h2>
<p>Mean over the seeds. Click a name to hide or show its curve; point at the chart to read values.</p>
<div id="keys">$keys</div><div id="curves">$curves</div><p id="at" aria-live="polite"></p>
$weights
<script type="application/json" id="data">$data</script>
<script>
const keys = document.querySelectorAll('.key'), chart = document.querySelector('#curves svg');
keys.forEach(key => key.addEventListener('click', () => {
  const on = key.getAttribute('aria-pressed') !== 'true';
  key.setAttribute('aria-pressed', on);
  document.querySelectorAll('#curves .curve').forEach(curve => {
    if (curve.dataset.name === key.dataset.name) curve.classList.toggle('off', !on);
  });
}));
const data = JSON.parse(document.getElementById('data').textContent);
if (chart) chart.addEventListener('pointermove', event => {
  const box = chart.getBoundingClientRect(), longest = Math.max(...data.map(s => s.values.length));
  const x = (event.clientX - box.left) / box.width * $width;
  const share = (x - $left) / ($width - $left - $right);
  const epoch = Math.min(longest, Math.max(1, Math.round(share * (longest - 1)) + 1));
  const shown = data.filter(s => epoch <= s.values.length &&
    !chart.querySelector('.curve[data-name="' + CSS.escape(s.name) + '"]').classList.contains('off'));
  const text = shown.map(s => s.name + ' ' + s.values[epoch - 1].toFixed(1)).join(', ');
  document.getElementById('at').textContent = 'Epoch ' + epoch + ': ' + text;
});
</script>
</body></html>
""")


def render(results: Sequence[Result], order: Iterable[str], title: str) -> str:
    """The page for these runs. Everything that came from outside is escaped."""
    rows = by_method(results, order)
    curves = {row.method: mean_curve(results, row.method) for row in rows}
    curves = {name: values for name, values in curves.items() if values}
    return _PAGE.substitute(
        title=escape(title),
        summary=escape(summary(rows)),
        table=table(rows),
        keys=svg.buttons(list(curves)),
        curves=svg.line_chart(curves, "epoch", "accuracy (%)") if curves else "<p>No epoch has been run yet.</p>",
        weights=_weights(results),
        data=_json([{"name": name, "values": values} for name, values in curves.items()]),
        width=svg.WIDTH,
        left=svg.LEFT,
        right=svg.RIGHT,
    )


def summary(rows: Sequence[Row]) -> str:
    """A sentence: how many runs, the best method, what did not finish."""
    done = [row for row in rows if row.accuracies]
    runs = sum(len(row.accuracies) + row.dead + row.unfinished for row in rows)
    if not done:
        return f"{runs} runs, none finished."
    best = max(done, key=lambda row: row.mean)
    notes = "; ".join(f"{row.method}: {row.note}" for row in rows if row.note)
    text = f"{runs} runs of {len(rows)} methods. Highest mean accuracy: {best.method}, {best.mean:.2f}%."
    return text + (f" Not finished: {notes}." if notes else " All finished.")


def table(rows: Sequence[Row]) -> str:
    """The methods as an HTML table; what did not finish is said, not dropped."""
    lines = []
    for row in rows:
        accuracy = f"{row.mean:.2f}" + (f" ({row.std:.2f})" if len(row.accuracies) > 1 else "")
        cells = [
            escape(row.method),
            accuracy if row.accuracies else "-",
            str(len(row.accuracies)),
            f"{row.seconds_per_epoch:.3f}" if row.accuracies else "-",
            escape(row.note),
        ]
        lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    head = "<tr><th>method</th><th>accuracy % (std)</th><th>seeds</th><th>s / epoch</th><th></th></tr>"
    return f"<table><thead>{head}</thead><tbody>{''.join(lines)}</tbody></table>"


def mean_curve(results: Sequence[Result], method: str) -> list[float]:
    """Accuracy after each epoch, the mean over the seeds that got that far."""
    runs = [[row["accuracy"] for row in result.metrics] for result in results if result.method == method]
    longest = max((len(run) for run in runs), default=0)
    return [float(np.mean([run[k] for run in runs if len(run) > k])) for k in range(longest)]


def _weights(results: Sequence[Result]) -> str:
    """A histogram of the weights of each ADIW method's first finished run, where the truth is known."""
    sections, shown = [], set()
    for result in results:
        if result.status != "done" or not result.method.startswith("adiw") or result.method in shown:
            continue
        weights, flipped = result.weights(), result.flipped()
        if not flipped.any() or len(weights) != len(flipped):
            continue
        shown.add(result.method)
        top = max(2.0, float(np.quantile(weights, 0.99)))
        edges = np.linspace(0, top, 26)
        groups = {
            name: (np.histogram(np.clip(part, 0, top), edges)[0] / max(len(part), 1)).tolist()
            for name, part in (("intact", weights[~flipped]), ("mislabelled", weights[flipped]))
        }
        chart = svg.histogram(groups, [round(float(edge), 2) for edge in edges], "weight")
        sections.append(f"<h3>{escape(result.method)}</h3>{chart}")
    if not sections:
        return ""
    keys = svg.legend(["intact", "mislabelled"])
    return f"<h2>Weights of intact and mislabelled samples</h2><div>{keys}</div>" + "".join(sections)


def _json(value: object) -> str:
    """JSON that cannot end the script element that it stands in."""
    return json.dumps(value).replace("<", "\\u003c")
