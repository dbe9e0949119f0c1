"""The tables of the README and of the pages are those that the records give."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from draw_tables import draw

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "paper" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tables_are_drawn_from_the_records(page: Path) -> None:
    text = page.read_text()
    assert draw(text, page.parent) == text, "run make draw"
    ends = sum(text.count(f"<!-- end of {kind} -->") for kind in ("table", "gauntlet"))
    assert ends == len(re.findall(r"<!-- [a-z]+: \S+ -->", text))


def test_the_readme_and_the_results_have_drawn_tables() -> None:
    for page in (ROOT / "README.md", ROOT / "docs" / "results.md"):
        assert "<!-- end of table -->" in page.read_text(), page.name
