"""Tables of pages, drawn from records of every kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import draw_tables
from adiw.reports.grid import NONE
from adiw.reports.tables import accuracy_table
from draw_tables import brief_table, draw
from tests.reports.test_tables import sweep_of, three


def test_the_brief_form_has_no_differences_and_fewer_notes(tmp_path: Path) -> None:
    lines = three("KL", "x", 80, 81, 82) + three("KM", "x", 60, 60.5)
    sweep = sweep_of(tmp_path, lines, ["KL", "KM"], paper={"accuracy": {"KL": [[80.5, 0.25], None]}})
    brief, whole = brief_table(sweep), accuracy_table(sweep)
    assert [head.full for head in brief.head] == ["", "x, ours", "x, paper", "y, ours", "y, paper"]
    assert [b.text for b in brief.rows[0]] == ["KL", "81.00 (0.82)", "80.50 (0.25)", NONE, NONE]
    assert brief.rows[1][1].text == "60.25 (0.25); 2 of 3 trials, 1 missing"
    figures, bold, not_run = brief.notes
    assert [f"{figures} Diff.: ours - paper.", bold, not_run] == whole.notes[:3]
    assert len(whole.notes) > 3


def test_the_command_draws_the_pages_that_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "records").mkdir()
    record = {"check": "some", "about": "things are tried", "counts": {"things": 5}, "wrong": [], "commit": "abc"}
    (tmp_path / "records" / "some.json").write_text(json.dumps(record))
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n<!-- table: records -->\nold\n<!-- end of table -->\n\nThe end.\n")
    monkeypatch.setattr("sys.argv", ["draw_tables", str(page)])
    draw_tables.main()
    assert "| some | things are tried | 5 things | abc |" in page.read_text()
    assert "old" not in page.read_text()
    assert page.read_text().endswith("\n\nThe end.\n")


def test_a_profile_is_drawn_as_its_two_tables(tmp_path: Path) -> None:
    paper = {"cpu": {"DIW": [[1.0, 100.0], [1.0, 100.0]]}, "cuda": {"DIW": [None, None]}}
    recipe = {"title": "A step", "paper": paper}
    times = {"stages": {"fetch": {"cpu": 2.0, "device": 0.5, "busy": 0.5}}, "notes": []}
    made = {"versions": {"torch": "2.99"}, "hardware": {"device": "Some GPU", "cpus": 16}, "commit": "abc"}
    plan = {"epochs": [1], "skip": 10, "stabilise": 2, "record": 10, "iterations": None}
    found = {"plan": plan, "device": "cuda", "workers": 4, "implementations": {"DIW": {**times, **made}}}
    for name, content in (("recipe.json", recipe), ("profile.json", found)):
        (tmp_path / name).write_text(json.dumps(content))
    drawn = draw("<!-- table: . -->\n<!-- end of table -->\n", tmp_path)
    assert "### A step: CPU time" in drawn
    assert "### A step: device time" in drawn
    assert "| fetch | 2.0000 (100.00) | 1.00 (100.00) |" in drawn
