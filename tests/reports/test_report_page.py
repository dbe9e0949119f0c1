"""The page: complete, with unfinished runs, and safe with any names."""

from __future__ import annotations

from html import unescape
from pathlib import Path

import pytest

from adiw.reports.folders import read_results
from adiw.reports.grid import NONE
from adiw.reports.report_page import render_report
from tests.reports.elements import Elements
from tests.reports.folders import record, write_pictures, write_run, write_sweep

HOSTILE = "</script><script>alert(1)</script>"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    write_run(tmp_path / "1", "adiw-kl", [50.0, 70.0, 90.0])
    write_run(tmp_path / "2", "adiw-kl", [60.0, 80.0])
    write_run(tmp_path / "3", "uniform", [30.0, 40.0], weights=[1.0, 1.0])
    write_run(tmp_path / "4", "diw", [10.0], "dead")
    write_run(tmp_path / "5", "l2r", [20.0], None)
    write_run(tmp_path / "6", "mw-net", [], None)
    return tmp_path


def test_every_method_has_its_line_its_button_and_its_curve(runs: Path) -> None:
    page = Elements(render_report(read_results(runs)))
    methods = ["uniform", "l2r", "mw-net", "diw", "adiw-kl"]
    assert [a["data-name"] for a in page.named("button", kind="key")] == methods
    assert [a["data-name"] for a in page.named("tr", kind="of")] == methods
    data = page.data()
    assert data["rows"] == methods
    curves = {data["rows"][cell["row"]]: cell["curves"]["accuracy"] for cell in data["cells"] if cell["curves"]}
    assert list(curves) == ["uniform", "l2r", "diw", "adiw-kl"]
    assert curves["adiw-kl"] == {"mean": [55, 75, 90], "low": [50, 70, 90], "high": [60, 80, 90]}
    assert curves["diw"] == {"mean": [], "others": [{"status": "dead", "values": [10]}]}


def test_the_summary_is_on_the_page(runs: Path) -> None:
    page = Elements(render_report(read_results(runs)))
    first, second = page.text("li")[:2]
    assert first == "6 runs of 5 methods: 3 finished, 1 dead, 2 unfinished."
    assert second == "Highest mean accuracy 70.00% with adiw-kl."


def test_a_page_without_any_epoch(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "diw", [], None)
    text = render_report(read_results(tmp_path))
    assert "No epoch has finished yet." in text
    assert not Elements(text).named("figure")


def test_one_run_has_no_controls(tmp_path: Path) -> None:
    text = render_report(read_results(write_run(tmp_path / "a", "adiw-kl", [50.0, 60.0], dataset="digits")))
    page = Elements(text)
    assert page.text("h1") == ["adiw-kl on digits"]
    assert not page.named("nav")
    assert page.named("figure", **{"data-curves": "accuracy"})


def test_a_sweep_has_a_choice_of_settings_and_its_facts(tmp_path: Path) -> None:
    records = [record("KL", column, 0, [50.0] * 12) for column in ("a", "b")]
    deviation = {"setting": "lr", "rows": ["KL"], "paper": 0.1, "ours": 0.2, "chosen": "by looking"}
    text = render_report(read_results(write_sweep(tmp_path, records, ["KL"], ["a", "b"], deviations=[deviation])))
    page = Elements(text)
    assert [a["value"] for a in page.named("input", name="column")] == ["0", "1"]
    assert page.text("h1") == ["Label noise"]
    assert dict(zip(page.text("dt"), page.text("dd"), strict=True))["dataset"] == "digits"
    assert "Deviation: lr of KL is 0.2 (paper: 0.1). Chosen: by looking." in page.text("p")
    assert any("PyTorch: 2.9" in note for note in page.text("p"))


def test_the_charts_begin_with_the_first_setting_that_has_runs(tmp_path: Path) -> None:
    for column, chosen in (("a", "0"), ("b", "1")):
        folder = write_sweep(tmp_path, [record("KL", column, 0, [50.0] * 12)], ["KL"], ["a", "b", "c"])
        page = Elements(render_report(read_results(folder)))
        assert [a["value"] for a in page.named("input", name="column") if "checked" in a] == [chosen]


def cells(text: str, row: str) -> list[str]:
    """The text of each cell of a table's row, in one line."""
    line = text.split(f'<th scope="row">{row}</th>')[1].split("</tr>")[0]
    parts = [Elements(cell + "</td>").texts for cell in line.split("</td>")[:-1]]
    return [" ".join(text.strip() for _, text in part) for part in parts]


def test_runs_of_one_setting_have_their_trials_and_times(tmp_path: Path) -> None:
    write_run(tmp_path / "1", "adiw-kl", [50.0, 70.0], seconds=0.25)
    write_run(tmp_path / "2", "adiw-kl", [61.0], seconds=0.5)
    write_run(tmp_path / "3", "diw", [10.0], "dead")
    write_run(tmp_path / "4", "l2r", [], None)
    text = render_report(read_results(tmp_path))
    assert Elements(text).text("th")[:4] == ["runs", "method", "trials", "s / epoch"]
    assert cells(text, "adiw-kl") == ["60.50 (0.71)", "2", "0.375"]
    assert cells(text, "diw") == ["0 of 1 trials, 1 dead", "0", NONE]
    assert cells(text, "l2r") == ["0 of 1 trials, 1 unfinished", "0", NONE]
    assert text.count('<section class="table"') == 1
    assert "Mean over seeds (standard deviation)" in text
    assert "diw, runs, trial 2: dead, epoch 1: broken" in text


def test_a_sweep_has_every_planned_cell_and_the_papers_figure(tmp_path: Path) -> None:
    records = [record("KL", "a", 0, [0.0] * 5 + [60.0] * 10), record("KL", "a", 1, [62.0] * 10)]
    records += [record("KL", "b", 0, [10.0], "dead"), record("KL", "b", 1, [], "failed")]
    paper = {"accuracy": {"KL": [[60.5, 0.25], [70, 1]], "New": [None, None]}}
    folder = write_sweep(tmp_path, records, ["KL", "New"], ["a", "b"], paper=paper, common={"epochs": 10})
    text = render_report(read_results(folder))
    assert Elements(text).text("th")[:4] == ["a", "b", "method", "ours"]
    assert cells(text, "KL") == [
        *("61.00 (1.00); 10 and 15 epochs", "60.50 (0.25)", "+0.50"),
        *("0 of 2 trials, 1 dead, 1 failed", "70.00 (1.00)", NONE),
    ]
    assert cells(text, "New") == [NONE] * 6
    assert f"Not run yet ({NONE}): a (New); b (New)." in Elements(text).text("p")


def test_the_time_has_its_table(tmp_path: Path) -> None:
    records = [record("KL", column, 0, [60.0], side_by_side=8) for column in ("a", "b")]
    more = {"measures": ["accuracy", "top5"], "paper": {"seconds": {"KL": [12.5, None]}}, "trials": 1}
    folder = write_sweep(tmp_path, records, ["KL"], ["a", "b"], **more)
    text = render_report(read_results(folder))
    assert Elements(text).text("h2")[:2] == ["Accuracy (%)", "Accuracy over the epochs"]
    assert cells(text, "KL")[1] == "70.00"  # top-5
    (folder / "timing.jsonl").write_text('{"row": "KL", "column": "a", "seconds_per_epoch": 0.125, "epochs": 3}\n')
    text = render_report(read_results(folder))
    assert Elements(text).text("h2")[:2] == ["Accuracy (%)", "Seconds per epoch"]
    assert cells(text.split("<h2>Seconds per epoch")[1], "KL")[:3] == ["0.125", "12.50", "-12.38"]


def hostile_pages(tmp_path: Path) -> list[str]:
    folder = tmp_path / "runs"
    write_pictures(write_run(folder / "1", f"adiw{HOSTILE}", [50.0], dataset=HOSTILE), [HOSTILE, '"onload="x'])
    write_run(folder / "2", '"onclick="alert(1)', [50.0], "dead", dataset=HOSTILE)
    write_run(folder / "3", "{{ 7 * 7 }}{% raw %}", [50.0], dataset=HOSTILE, shift="&lt;")
    lines = [
        record(HOSTILE, f"c{HOSTILE}", 0, [50.0]),
        record(HOSTILE, f"c{HOSTILE}", 1, [5.0], "dead", reason=HOSTILE),
    ]
    more = {
        "title": HOSTILE,
        "about": HOSTILE,
        "common": {HOSTILE: HOSTILE},
        "paper": {"accuracy": {HOSTILE: [[9, 1]]}},
    }
    sweep = write_sweep(tmp_path / "sweep", lines, [HOSTILE], [f"c{HOSTILE}", "d"], **more)
    return [render_report(read_results(place)) for place in (folder, sweep)]


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    for text in hostile_pages(tmp_path):
        page = Elements(text)
        assert len(page.named("script")) == 2
        assert text.count("</script>") == 2
        assert "alert(1)</script>" not in text
        assert not any({"onclick", "onload"} & attributes.keys() for _, attributes in page.tags)
        assert any(HOSTILE in name for name in page.data()["rows"])
        assert HOSTILE in unescape(text)
    runs = Elements(hostile_pages(tmp_path / "again")[0])
    assert set(runs.data()["rows"]) == {f"adiw{HOSTILE}", '"onclick="alert(1)', "{{ 7 * 7 }}{% raw %}"}
    assert any(a["alt"] == f"training sample 10, given label {HOSTILE}" for a in runs.named("img"))


def test_the_page_loads_no_other_file(runs: Path) -> None:
    write_pictures(runs / "1", ["ant", "bee"])
    text = render_report(read_results(runs))
    page = Elements(text)
    assert not page.named("link")
    assert not any("href" in attributes for _, attributes in page.tags)
    assert all(str(a.get("src", "data:")).startswith("data:image/png;base64,") for a in page.named("img"))
    addresses = set(filter(None, (part.partition("'")[0] for part in text.split("http://")[1:])))
    assert addresses == {"www.w3.org/2000/svg"}  # a name, not an address that anything is fetched from
    assert "https://" not in text
