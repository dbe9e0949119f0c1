"""Tables of pages, drawn from records of every kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import draw_tables
from adiw.reports.grid import NONE
from adiw.reports.tables import accuracy_table
from draw_tables import brief_table
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
