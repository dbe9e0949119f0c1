"""Tables of pages, drawn from records of every kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import draw_tables


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
