"""The pages on integrations and tasks say what is so; tests/docs runs their code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def text_of(page: str) -> str:
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["plain-pytorch.md", "lightning.md", "huggingface.md"])
def test_at_most_five_lines_change(page: str) -> None:
    assert text_of(page).count("  # changed") in {4, 5}


@pytest.mark.parametrize(
    "page", ["plain-pytorch.md", "lightning.md", "huggingface.md", "scikit-learn.md", "tasks.md"]
)
def test_the_scripts_that_it_names_exist(page: str) -> None:
    for name in re.findall(r"[`/](\w+\.py)`", text_of(page)):
        assert (ROOT / "examples" / name).is_file(), name


def test_every_task_has_its_row() -> None:
    for name in ("regression", "covariate_shift", "text", "multi_label"):
        assert f"| `examples/{name}.py` |" in text_of("tasks.md")
