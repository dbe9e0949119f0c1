"""The page: complete, honest about what did not finish, and safe whatever the names are."""

from __future__ import annotations

from html import unescape
from pathlib import Path

import pytest

from adiw.reports.page import render
from adiw.reports.records import load_page
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
    page = Elements(render(load_page(runs)))
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
    page = Elements(render(load_page(runs)))
    first, second = page.text("li")[:2]
    assert first == "6 runs of 5 methods: 3 finished, 1 dead, 2 unfinished."
    assert second == "Highest mean accuracy 70.00% with adiw-kl."


def test_a_page_without_any_epoch(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "diw", [], None)
    text = render(load_page(tmp_path))
    assert "No epoch has been run yet." in text
    assert not Elements(text).named("figure")


def test_one_run_has_no_controls(tmp_path: Path) -> None:
    text = render(load_page(write_run(tmp_path / "a", "adiw-kl", [50.0, 60.0], dataset="digits")))
    page = Elements(text)
    assert page.text("h1") == ["adiw-kl on digits"]
    assert not page.named("nav")
    assert page.named("figure", **{"data-curves": "accuracy"})


def test_a_sweep_has_a_choice_of_settings_and_its_facts(tmp_path: Path) -> None:
    records = [record("KL", column, 0, [50.0] * 12) for column in ("a", "b")]
    deviation = {"setting": "lr", "rows": ["KL"], "paper": 0.1, "ours": 0.2, "chosen": "by looking"}
    text = render(load_page(write_sweep(tmp_path, records, ["KL"], ["a", "b"], deviations=[deviation])))
    page = Elements(text)
    assert [a["value"] for a in page.named("input", name="column")] == ["0", "1"]
    assert page.text("h1") == ["Label noise"]
    facts = dict(zip(page.text("dt"), page.text("dd"), strict=True))
    assert facts["deviation: lr"] == "0.2 instead of 0.1 (KL): by looking"
    assert (facts["dataset"], facts["versions"]) == ("digits", "torch 2.9")
    assert "runs side by side" not in facts


def test_the_charts_begin_with_the_first_setting_that_has_runs(tmp_path: Path) -> None:
    for column, chosen in (("a", "0"), ("b", "1")):
        folder = write_sweep(tmp_path, [record("KL", column, 0, [50.0] * 12)], ["KL"], ["a", "b", "c"])
        page = Elements(render(load_page(folder)))
        assert [a["value"] for a in page.named("input", name="column") if "checked" in a] == [chosen]


def test_runs_that_shared_the_device_are_said(tmp_path: Path) -> None:
    records = [{**record("KL", "a", trial, [50.0] * 12), "side_by_side": 1 + 7 * trial} for trial in range(2)]
    page = Elements(render(load_page(write_sweep(tmp_path, records, ["KL"], ["a"]))))
    facts = dict(zip(page.text("dt"), page.text("dd"), strict=True))
    assert facts["runs side by side"] == "8"


def hostile_pages(tmp_path: Path) -> list[str]:
    folder = tmp_path / "runs"
    write_pictures(write_run(folder / "1", f"adiw{HOSTILE}", [50.0], dataset=HOSTILE), [HOSTILE, '"onload="x'])
    write_run(folder / "2", '"onclick="alert(1)', [50.0], "dead", dataset=HOSTILE)
    write_run(folder / "3", "$body ${data}", [50.0], dataset=HOSTILE, shift="&lt;")
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
    return [render(load_page(place)) for place in (folder, sweep)]


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
    assert set(runs.data()["rows"]) == {f"adiw{HOSTILE}", '"onclick="alert(1)', "$body ${data}"}
    assert any(a["alt"] == f"training sample 0, given label {HOSTILE}" for a in runs.named("img"))


def test_the_page_needs_nothing_from_elsewhere(runs: Path) -> None:
    write_pictures(runs / "1", ["ant", "bee"])
    text = render(load_page(runs))
    page = Elements(text)
    assert not page.named("link")
    assert not any("href" in attributes for _, attributes in page.tags)
    assert all(str(a.get("src", "data:")).startswith("data:image/png;base64,") for a in page.named("img"))
    addresses = set(filter(None, (part.partition("'")[0] for part in text.split("http://")[1:])))
    assert addresses == {"www.w3.org/2000/svg"}  # a name, not an address that anything is fetched from
    assert "https://" not in text
