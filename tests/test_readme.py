"""The README: its code runs, its table is what the record says, and it names what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from adiw.experiments.plan import plan
from adiw.experiments.recipes import load_file, names
from adiw.reports.readme import draw

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_every_code_block_runs(number: int) -> None:
    torch.manual_seed(0)
    names: dict[str, object] = {}
    exec(compile(BLOCKS[number], f"README block {number}", "exec"), names)
    assert len(BLOCKS) == 2
    if "reweight" in names:
        right = names["labels"] == names["truth"]
        weights = names["reweight"].weights  # type: ignore[attr-defined]
        assert weights[right].mean() > 2 * weights[~right].mean()  # it tells right labels from wrong ones


def test_the_table_is_drawn_from_the_record() -> None:
    assert draw(README, ROOT) == README
    assert "| adiw-kl |" in README


def test_the_tables_of_the_results_page_are_drawn_from_the_records() -> None:
    page = (ROOT / "docs" / "results.md").read_text()
    assert draw(page, ROOT / "docs") == page
    assert page.count("| Oracle |") == 3


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
