"""The README and the pages: their tables are what the records say, and they name what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from adiw.experiments.plan import plan
from adiw.experiments.recipes import load_file, names
from draw_tables import draw

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
README = (ROOT / "README.md").read_text()


def test_the_table_is_drawn_from_the_record() -> None:
    assert draw(README, ROOT) == README
    assert "| adiw-kl |" in README
    assert re.search(r"\| ADIW-KL \|.* \| 89\.19 \(0\.11\) \|", README), "the paper's figure beside ours"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_tables_of_the_pages_are_drawn_from_the_records(page: Path) -> None:
    text = page.read_text()
    assert draw(text, page.parent) == text, "run make draw"
    assert text.count("<!-- end of table -->") == len(re.findall("<!-- (?:table|brief|divergences): ", text))
    assert page.name != "results.md" or text.count("| Oracle |") >= 3


def test_the_sweeps_that_it_names_are_recipes(tmp_path: Path) -> None:
    named = re.findall(r"adiw sweep ([\w.-]+)", README)
    assert len(named) > 5
    assert set(named) - {"mine.toml"} <= set(names())
    page = (ROOT / "docs" / "sweeps.md").read_text()
    (tmp_path / "mine.toml").write_text(re.findall(r"```toml\n(.*?)```", page, re.DOTALL)[0])
    assert len(plan(load_file(tmp_path / "mine.toml"))) == 12


def test_make_targets_and_files_that_it_names_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`?make (\w+)", README):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for link in re.findall(r"\]\(([\w./-]+)\)", README):
        assert (ROOT / link).exists(), link
