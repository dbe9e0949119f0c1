"""The pages on scikit-learn and on other tasks: their code runs, and they name what exists."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
PAGES = {"scikit-learn": 3, "tasks": 3}  # blocks of code
BLOCKS = [(page, number) for page, count in PAGES.items() for number in range(count)]


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / f"{page}.md").read_text(), re.DOTALL)


@pytest.mark.parametrize(("page", "number"), BLOCKS, ids=[f"{page}-{number}" for page, number in BLOCKS])
def test_every_code_block_runs(page: str, number: int) -> None:
    if page == "scikit-learn" and find_spec("skorch") is None:
        pytest.skip("needs the extra adiw[sklearn]")
    torch.manual_seed(0)
    names: dict[str, object] = {}
    exec(compile(blocks(page)[number], f"docs/{page}.md block {number}", "exec"), names)
    if "given" in names and "model" in names and "X_test" in names:
        right, model = names["given"] == names["y"], names["model"]
        assert model.sample_weight_[right].mean() > 3 * model.sample_weight_[~right].mean()  # type: ignore[attr-defined]


@pytest.mark.parametrize("page", PAGES)
def test_no_block_is_forgotten_and_every_script_exists(page: str) -> None:
    assert len(blocks(page)) == PAGES[page]
    for script in re.findall(r"`(examples/[\w.]+)`", (ROOT / "docs" / f"{page}.md").read_text()):
        assert (ROOT / script).is_file()


@pytest.mark.parametrize("name", ["regression", "covariate_shift", "text", "multi_label"])
def test_every_task_has_its_row_with_the_margin_that_its_script_asks_for(name: str) -> None:
    (margin,) = re.findall(r"^MARGIN = ([\d.]+) ", (ROOT / "examples" / f"{name}.py").read_text(), re.MULTILINE)
    (row,) = re.findall(rf"^\| `examples/{name}.py` \|.*", (ROOT / "docs" / "tasks.md").read_text(), re.MULTILINE)
    assert re.search(rf" {margin}( of that without weights| higher) \|$", row)
