"""Verdict, alarms and classes at the top of a page, from the record of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adiw.reports.charts import chart_data
from adiw.reports.diagnosis import MANY, class_tables, findings, majority_rates
from adiw.reports.folders import read_results
from adiw.reports.report_page import render_report
from tests.reports.browser import OVERFLOWING, evaluate, needs_chromium
from tests.reports.elements import Elements
from tests.reports.folders import write_run

HOSTILE = "<script>alert(1)</script>"
COMPARED = {"method": "uniform", "score": 80.0, "difference": 5.0, "low": -1.0, "high": 11.0, "n": 40}
ALARM = {"name": "collapsed", "message": f"lower the learning rate {HOSTILE}", "epoch": 3}


def predictions(names: list[str]) -> dict[str, Any]:
    size = len(names)
    matrix = [[4 if i == j else int(j == (i + 1) % size) for j in range(size)] for i in range(size)]
    shares = [100 / size] * size
    return {
        "classes": names,
        "test_samples": [5] * size,
        "accuracy": [80.0 - i for i in range(size - 1)] + [None],
        "predicted_share": shares,
        "test_share": shares,
        "trusted_share": shares,
        "train_share": shares,
        "majority": {"class": names[0], "rate": 40.0},
        "confusion": matrix if size <= MANY else None,
        "confusions": [{"true": names[0], "predicted": names[1], "count": 7}],
    }


def run_with(folder: Path, method: str = "adiw-kl", **more: Any) -> Path:
    """A run with further entries in its result.json."""
    write_run(folder, method, [50.0, 60.0])
    file = folder / "result.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **more}))
    return folder


def verdict(sentence: str, *compared: dict[str, Any]) -> dict[str, Any]:
    return {"sentence": sentence, "answer": "helps", "shift": {}, "after": None, "comparison": list(compared) or None}


def test_the_verdict_comes_first_then_the_alarms(tmp_path: Path) -> None:
    folder = run_with(tmp_path / "run", verdict=verdict(f"It helps. {HOSTILE}", COMPARED), alarms=[ALARM])
    text = render_report(read_results(folder))
    order = [text.index(part) for part in ("</h1>", "It helps.", "collapsed", "+5.00", 'class="summary"')]
    assert order == sorted(order)
    assert "-1.00 to +11.00" in text
    assert HOSTILE not in text
    assert "1 alarm" in Elements(text).text("b")


def test_a_page_of_several_runs_names_them_and_shows_compared_ones_first(tmp_path: Path) -> None:
    run_with(tmp_path / "a", "uniform", verdict=None, alarms=[ALARM])
    run_with(tmp_path / "b", "adiw-kl", verdict=verdict("Better.", COMPARED))
    run_with(tmp_path / "c", "val-only")  # without any
    found = findings(read_results(tmp_path))
    assert [(f["row"], f["sentence"], len(f["alarms"])) for f in found] == [
        ("adiw-kl", "Better.", 0),
        ("uniform", None, 1),
    ]
    assert "adiw-kl:" in Elements(render_report(read_results(tmp_path))).text("b")


def test_runs_of_earlier_versions_have_neither(tmp_path: Path) -> None:
    results = read_results(write_run(tmp_path / "a", "adiw-kl", [50.0]))
    assert (findings(results), class_tables(results), majority_rates(results)) == ([], [], {})
    text = render_report(results)
    assert 'id="classes"' not in text
    assert 'class="verdict"' not in text


def test_classes_are_shown_with_their_weights_and_confusions(tmp_path: Path) -> None:
    groups = {
        "classes": [{"name": "ant", "n": 9, "accuracy": 1.0, "mean_weight": 1.25, "ess": 8.0}],
        "groups": [{"name": "women", "n": 6, "accuracy": 70.0, "mean_weight": 0.5, "ess": 3.0}],
    }
    folder = run_with(tmp_path / "run", predictions=predictions(["ant", HOSTILE, "cat"]), groups=groups)
    results = read_results(folder)
    (table,) = class_tables(results)
    first = table["lines"][0]
    assert (first["name"], first["accuracy"], first["mean_weight"]) == ("ant", 80.0, 1.25)
    assert (table["hidden"], table["opened"]) == (0, True)
    text = render_report(results)
    page = Elements(text)
    assert HOSTILE not in text
    assert {"Classes", "Confusion matrix", "Groups"} <= {*page.text("h2"), *page.text("h3")}
    assert "women" in page.text("th")
    assert len(page.named("td", kind="right")) == 3
    assert len(page.named("td", kind="confused")) == 3


def test_of_many_classes_the_worst_are_shown(tmp_path: Path) -> None:
    folder = run_with(tmp_path / "run", predictions=predictions([f"c{k}" for k in range(MANY + 5)]))
    (table,) = class_tables(read_results(folder))
    assert (len(table["lines"]), table["hidden"], table["confusion"]) == (MANY, 5, None)
    assert table["lines"][0]["name"] == f"c{MANY + 3}"  # the lowest accuracy; the last class has none
    assert "c0 predicted as c1: 7" in Elements(render_report(read_results(folder))).text("li")


def test_the_chart_has_the_majority_rate_and_the_best_epoch(tmp_path: Path) -> None:
    best = {"epoch": 2, "accuracy": 60.0, "top5": 90.0}
    folder = run_with(
        tmp_path / "run", predictions=predictions(["ant", "bee"]), best=best, last={**best, "accuracy": 55.0}
    )
    results = read_results(folder)
    data = chart_data(results)
    assert data["references"] == [[{"name": "always ant", "value": 40.0}]]
    assert data["cells"][0]["best"] == 2
    summary = " ".join(Elements(render_report(results)).text("li"))
    assert "in epoch 2, the best of 2 on held-out trusted samples; the last epoch has 55.00%" in summary
    assert "more than always predicting the most frequent class, ant: 40.00%" in summary


def test_runs_that_were_not_compared_have_one_line_in_all(tmp_path: Path) -> None:
    nothing = {**verdict("Whether the weights help was not measured."), "answer": "not compared"}
    for method in ("adiw-kl", "adiw-km"):
        run_with(tmp_path / method, method, verdict=nothing)
    page = Elements(render_report(read_results(tmp_path)))
    assert page.named("p", kind="verdict") == []
    assert [line for line in page.text("li") if "no verdict" in line] == [page.text("li")[2]]
    alone = Elements(render_report(read_results(tmp_path / "adiw-kl")))
    assert "Whether the weights help was not measured." in alone.text("p")


def test_a_compared_run_is_one_row_with_its_folds_and_the_alternatives_are_lines(tmp_path: Path) -> None:
    ends = {"best": {"epoch": 2, "accuracy": 60.0, "top5": 90.0}, "last": {"accuracy": 55.0}}
    figures = predictions(["ant", "bee"])
    root = run_with(tmp_path / "run", predictions=figures, verdict=verdict("Better.", COMPARED), **ends)
    for method in ("uniform", "adiw-kl"):
        for fold in ("1/2", "2/2"):
            folder = root / "compare" / method / fold.replace("/", "-")
            write_run(folder, method, [40.0, 44.0], fold=fold, weights=[0.5, 0.2])
            result = json.loads((folder / "result.json").read_text())
            (folder / "result.json").write_text(json.dumps({**result, "predictions": figures}))
    results = read_results(tmp_path)
    assert {row: len(cell.trials) for (row, _), cell in results.cells.items()} == {"uniform": 2, "adiw-kl": 2}
    assert {row: cell.figure("accuracy").mean for (row, _), cell in results.cells.items()} == {
        "uniform": 42.0,
        "adiw-kl": 42.0,  # as in the console: without the run itself, which has other trusted samples
    }
    lines = [{"name": "always ant", "value": 40.0}, {"name": "uniform", "value": 42.0}]
    assert chart_data(results)["references"] == [lines]
    assert [(table["row"], table["opened"]) for table in class_tables(results)] == [
        ("adiw-kl", True),
        ("uniform", False),
    ]
    summary = " ".join(Elements(render_report(results)).text("li"))
    assert "The compared run of adiw-kl: Accuracy" in summary
    assert "in epoch 2, the best of 2 on held-out trusted samples; the last epoch has 55.00%" in summary


@needs_chromium
@pytest.mark.parametrize("width", [390, 1000])
def test_in_a_browser_nothing_overflows_and_the_lines_are_drawn(tmp_path: Path, width: int) -> None:
    best = {"epoch": 1, "accuracy": 50.0, "top5": 90.0}
    names = [f"class number {k}" for k in range(12)]
    folder = run_with(
        tmp_path / "run",
        verdict=verdict("The weights help by 5 points.", COMPARED),
        alarms=[ALARM],
        predictions=predictions(names),
        best=best,
        last=best,
    )
    page = render_report(read_results(folder))
    script = """const all = query => [...document.querySelectorAll(query)];
      return {lines: all('.reference').length, best: all('circle.best').length,
        shade: getComputedStyle(all('.matrix td.right')[0]).backgroundColor,
        bar: all('.bar')[0].getBoundingClientRect().width};"""
    found = evaluate(page, script, tmp_path, width)
    assert (found["lines"], found["best"], found["bar"]) == (1, 1, 40)
    assert found["shade"] not in ("rgba(0, 0, 0, 0)", "transparent")
    assert evaluate(page, OVERFLOWING, tmp_path, width) == []
