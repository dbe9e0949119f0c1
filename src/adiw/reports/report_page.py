"""The report: one self-contained HTML page for a run, several runs or a sweep."""

from __future__ import annotations

from adiw.reports.charts import chart_data
from adiw.reports.diagnosis import class_tables, findings
from adiw.reports.pictures import galleries
from adiw.reports.render_template import render
from adiw.reports.results import Results
from adiw.reports.summary import sentences
from adiw.reports.tables import accuracy_table, time_table
from adiw.reports.times import seconds_alone

NAMES = {"accuracy": "Accuracy", "top5": "Top-5 accuracy"}
# Charts of the weights over the epochs: title, curves, explanation.
WEIGHT_CHARTS = (
    ("Effective sample size", ("ess",), "The number of equally weighted samples that would be as informative."),
    ("Mean weight", ("weight_mean",), "A mean above one acts like a larger learning rate."),
    (
        "Mean weight of intact / mislabelled",
        ("weight_intact", "weight_mislabelled"),
        "Solid line and first number: intact. Dashed line and second number: mislabelled.",
    ),
)


def render_report(results: Results) -> str:
    """The page of these results."""
    data, pictures = chart_data(results), galleries(results)
    drawn = {name for cell in data["cells"] for name in cell["curves"]}
    ends = [picture for gallery in pictures for end in gallery.ends.values() for picture in end]
    tables = {"Accuracy (%)": accuracy_table(results)}
    if results.planned is not None and any(seconds_alone(results, *place) for place in results.cells):
        tables["Seconds per epoch"] = time_table(results)
    return render(
        "report.html",
        title=results.title,
        about=results.recipe["about"],
        findings=findings(results),
        summary=sentences(results),
        rows=results.rows,
        columns=results.columns,
        first=min((cell["column"] for cell in data["cells"]), default=0),
        tables=tables,
        measures={measure: NAMES.get(measure, measure) for measure in results.measures if measure in drawn},
        several_trials=len(results.trials) > len(results.cells),
        unfinished_trials=any(trial.status != "done" for trial in results.trials),
        weight_charts=[chart for chart in WEIGHT_CHARTS if drawn & set(chart[1])],
        class_tables=class_tables(results),
        galleries=pictures,
        truth_known=any(picture.true is not None for picture in ends),
        settings=results.recipe["common"],
        data=data,
    )
