"""The guide pages: named scripts exist, and margins and arguments in their tables are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def text_of(page: str) -> str:
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def rows(page: str, first_cell: str) -> list[list[str]]:
    """The cells of all table rows of a page whose first cell matches."""
    lines = re.findall(r"^\| (.*) \|$", text_of(page), re.MULTILINE)
    cells = [[cell.strip() for cell in line.split(" | ")] for line in lines]
    return [row for row in cells if re.fullmatch(first_cell, row[0])]


@pytest.mark.parametrize(
    "page",
    ["plain-pytorch.md", "lightning.md", "huggingface.md", "language-models.md", "scikit-learn.md", "loss-shapes.md"],
)
def test_named_scripts_exist(page: str) -> None:
    for name in re.findall(r"[`/](\w+\.py)`", text_of(page)):
        assert (ROOT / "examples" / name).is_file(), name


@pytest.mark.parametrize("name", ["regression", "covariate_shift", "text", "language_model", "multi_label"])
def test_every_task_has_a_row_with_the_margin_of_its_script(name: str) -> None:
    (margin,) = re.findall(r"^MARGIN = ([\d.]+) ", (ROOT / "examples" / f"{name}.py").read_text(), re.MULTILINE)
    ((*_, shown),) = rows("loss-shapes.md", f"`examples/{name}.py`")
    assert margin in shown.split()


def test_every_argument_of_the_estimators_is_listed_with_its_default() -> None:
    pytest.importorskip("skorch", reason="needs the extra adiw[sklearn]")
    import torch

    from adiw.integrations.sklearn import ReweightedClassifier, ReweightedRegressor

    shown = {name.strip("`"): default.strip("`") for name, default, _ in rows("scikit-learn.md", r"`[a-z_]+`")}
    defaults = ReweightedClassifier().get_params()
    assert ReweightedRegressor().get_params() == defaults
    assert shown.keys() == defaults.keys()
    for name, default in defaults.items():
        assert eval(shown[name], {"torch": torch}) == default, name
