"""The pages on integrations and tasks say what is so; tests/docs runs their code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def text_of(page: str) -> str:
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "page", ["plain-pytorch.md", "lightning.md", "huggingface.md", "scikit-learn.md", "tasks.md"]
)
def test_the_scripts_that_it_names_exist(page: str) -> None:
    for name in re.findall(r"[`/](\w+\.py)`", text_of(page)):
        assert (ROOT / "examples" / name).is_file(), name


@pytest.mark.parametrize("name", ["regression", "covariate_shift", "text", "multi_label"])
def test_every_task_has_its_row_with_the_margin_that_its_script_asks_for(name: str) -> None:
    (margin,) = re.findall(r"^MARGIN = ([\d.]+) ", (ROOT / "examples" / f"{name}.py").read_text(), re.MULTILINE)
    (row,) = re.findall(rf"^\| `examples/{name}.py` \|.*", (ROOT / "docs" / "tasks.md").read_text(), re.MULTILINE)
    assert re.search(rf" {margin}( of that without weights| higher) \|$", row)
