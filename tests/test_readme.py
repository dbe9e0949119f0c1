"""The README and the pages: their tables are what the records say, and they name what exists."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from adiw.experiments.plan import plan
from adiw.experiments.recipes import load_file, names
from adiw.reports import readme
from adiw.reports.readme import draw

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


def test_the_command_draws_the_pages_that_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "records").mkdir()
    record = {"check": "some", "about": "things are tried", "counts": {"things": 5}, "wrong": [], "commit": "abc"}
    (tmp_path / "records" / "some.json").write_text(json.dumps(record))
    page = tmp_path / "page.md"
    page.write_text("# A page\n\n<!-- table: records -->\nold\n<!-- end of table -->\n\nThe end.\n")
    monkeypatch.setattr("sys.argv", ["readme", str(page)])
    readme.main()
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
