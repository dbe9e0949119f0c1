"""Every code block of every page is checked: Python is run and its output compared, commands and recipes are parsed.

Pages and blocks are found, not listed: a new block is tested, and a block in a language without a check fails.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from adiw.experiments.recipes import load_file, plan
from blocks import Block, read, rewrite, run
from tests.docs import shell

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "benchmarks" / "results" / "README.md"]
IDS = [str(page.relative_to(ROOT)) for page in PAGES]
# Pages whose blocks are run by other tests: pieces of a file, and loops that are compared with the loop before.
ELSEWHERE = {
    "docs/add-a-divergence.md": "tests/divergences/test_add_a_divergence_page.py",
    "docs/sweeps.md": "tests/experiments/test_sweeps_page.py",
    "docs/several-processes.md": "tests/integrations/test_several_page.py",
    **{
        f"docs/{name}.md": "tests/integrations/test_loop_pages.py"
        for name in ("plain-pytorch", "lightning", "huggingface")
    },
}
NEEDS = {
    "docs/scikit-learn.md": ("skorch", "pandas"),
    "docs/data-sets.md": ("pandas",),
    "docs/language-models.md": ("transformers", "trl"),
}
SHELL = {"sh", ""}  # the blocks of the README have no language


def blocks_of(page: Path) -> list[Block]:
    return read(page.read_text(encoding="utf-8"))


def labels_found(weights: torch.Tensor, names: dict[str, Any]) -> None:
    """The mean weight of wrong labels is below half of that of right ones. Trusted samples come first in x."""
    wrong = names["wrong"] if "wrong" in names else (names["labels"] != names["truth"])[50:]
    weights, right = weights[: len(wrong)], ~wrong
    assert weights[right].mean() > 2 * weights[~right].mean()


def check_scikit_learn(names: dict[str, Any]) -> None:
    weights, right = torch.from_numpy(names["model"].sample_weight_), torch.from_numpy(names["given"] == names["y"])
    assert weights[right].mean() > 3 * weights[~right].mean()


def check_audit(names: dict[str, Any]) -> None:
    first = names["audit"].order[:200]
    wrong = (names["labels"] != names["truth"])[50:]
    assert wrong[first].double().mean() > 2 * wrong.double().mean()


# Results that a page promises: the block after which they hold, and a check of the variables.
PROMISES: dict[str, tuple[int, Callable[[dict[str, Any]], None]]] = {
    "README.md": (0, lambda names: labels_found(names["reweight"].weights, names)),
    "docs/start.md": (-1, lambda names: labels_found(names["reweight"].weights, names)),
    "docs/reading-results.md": (-1, check_audit),
    "docs/scikit-learn.md": (0, check_scikit_learn),
}


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_the_code_of_a_page_runs_and_prints_what_it_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = str(page.relative_to(ROOT))
    python = [block for block in blocks_of(page) if block.language == "python"]
    if not python or name in ELSEWHERE:
        return
    for package in NEEDS.get(name, ()):
        pytest.importorskip(package, reason=f"{name} needs an extra")
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    ran = run(python, name)
    for block, (_, printed) in zip(python, ran, strict=True):
        if block.shown is not None:
            agree(printed, block.shown, f"{name}, line {block.line}")
    if name in PROMISES:
        after, check = PROMISES[name]
        check(ran[after][0])


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_other_block_is_checked(page: Path, tmp_path: Path) -> None:
    for block in blocks_of(page):
        if block.language in SHELL and (block.language or page.name == "README.md"):
            for line in block.text.splitlines():
                shell.check(line)
        elif block.language == "toml" and str(page.relative_to(ROOT)) in ELSEWHERE:
            tomllib.loads(block.text)  # pieces of a file
        elif block.language == "toml":
            (tmp_path / "mine.toml").write_text(block.text)
            assert plan(load_file(tmp_path / "mine.toml"))
        else:
            known = "python, text behind python, sh or toml"
            assert block.language == "python", f"{page}, line {block.line}: expected a block of {known}"


def test_pages_that_other_tests_run_are_named_there() -> None:
    for page, test in ELSEWHERE.items():
        assert re.search(rf'"{Path(page).stem}[".]', (ROOT / test).read_text()), page


def test_commands_within_sentences_exist() -> None:
    """Complete commands are parsed; of a mention such as "adiw sweep" or one with placeholders, only the name."""
    found = 0
    for page in PAGES:
        for line in re.findall(r"`((?:adiw|make|pip) [^`]*)`", page.read_text(encoding="utf-8")):
            words = line.split()
            if words[0] == "adiw" and (len(words) == 2 or re.search(r"\bDIR\b|\bNAME\b| --[\w-]+$", line)):
                assert words[1].startswith("-") or words[1] in shell.names(), f"{page}: {line}"
            else:
                shell.check(line)
            found += 1
    assert found > 20


def agree(out: str, shown: str, where: str) -> None:
    """Equal words, and numbers within 15% or 0.1, as rounding differs between processors."""
    number = r"-?\d+(?:\.\d+)?(?:e-?\d+)?"
    assert re.sub(number, "#", out) == re.sub(number, "#", shown), f"{where}: run python tools/blocks.py"
    found, expected = ([float(text) for text in re.findall(number, text)] for text in (out, shown))
    assert found == pytest.approx(expected, rel=0.15, abs=0.1), f"{where}: run python tools/blocks.py"


@pytest.mark.parametrize(
    ("out", "shown"), [("accuracy 90%", "accuracy 60%"), ("accuracy 90%", "error 90%"), ("1 2", "1"), ("", "1\n")]
)
def test_a_different_output_is_found(out: str, shown: str) -> None:
    with pytest.raises(AssertionError, match="here"):
        agree(out, shown, "here")


@pytest.mark.parametrize(
    "line",
    [
        "adiw run --epoch 3",
        "adiw run --method adiw-xx",
        "adiw sweep fmnist-nose",
        "adiw sweap fmnist-noise",
        "make coffee",
        "pip install torch",
        'pip install ".[clissic]"',
        "python benchmarks/none.py",
        "python -m adiw.none",
        "curl x",
    ],
)
def test_a_command_that_does_not_exist_is_found(line: str) -> None:
    with pytest.raises(Exception, match=r"\w"):
        shell.check(line)


def test_the_output_of_a_page_is_rewritten() -> None:
    page = "# A\n```python\nx = 2\n```\n\n```python\nprint(x)\n```\n\n```text\n1\n```\n\n```text\nalone\n```\n"
    blocks = read(page)
    assert [block.language for block in blocks] == ["python", "python", "text"]
    ran = run(blocks, "page")
    assert [(names["x"], printed) for names, printed in ran] == [(2, ""), (2, "2\n")]
    assert rewrite(page, ["", "2\n"]) == page.replace("```text\n1\n", "```text\n2\n")
