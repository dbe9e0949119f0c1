"""Names, options, files and defaults on the pages exist in the code; the code's own tables are the reference."""

from __future__ import annotations

import ast
import csv
import importlib
import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest

import adiw
from adiw.cli import console
from adiw.experiments.methods import METHODS
from adiw.experiments.run import run
from adiw.experiments.settings import resolve
from adiw.reports.audit import load_audit

commands = pytest.importorskip("commands", reason="needs the extra adiw[cli]")
ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "results" / "README.md"]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
FOLDERS = "src|tests|benchmarks|docs|examples|paper|results|tools|torture|versions"
FILES_TO_WRITE = {"docs/add-a-divergence.md"}  # this page names a file that its reader creates
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def quoted(text: str) -> list[str]:
    """Everything between single backticks, outside the blocks of code.

    >>> quoted("Pass `cap=5`.")
    ['cap=5']
    """
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def find(name: str) -> Any:
    """The object that a dotted name stands for; modules are imported."""
    thing: Any = importlib.import_module("adiw")
    for at, part in enumerate(name.split(".")[1:], start=2):
        if not hasattr(thing, part):
            importlib.import_module(".".join(name.split(".")[:at]))
        thing = getattr(thing, part)
    return thing


def check_code(code: str) -> None:
    """Raise where a name of the library, or an argument that is passed to it, does not exist."""
    for node in ast.walk(ast.parse(code, mode="eval")):
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("adiw."):
            find(ast.unparse(node))
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("adiw."):
            keywords = {key.arg: None for key in node.keywords if key.arg}
            inspect.signature(find(ast.unparse(node.func))).bind_partial(**keywords)


@each_page
def test_names_of_the_library_exist(page: Path) -> None:
    for code in quoted(page.read_text(encoding="utf-8")):
        if re.match(r"adiw\.\w", code) and not re.search(r"\.(pt|toml|csv)$", code):
            check_code(code)


@each_page
def test_divergences_and_methods_are_in_their_tables(page: Path) -> None:
    codes = quoted(page.read_text(encoding="utf-8"))
    if str(page.relative_to(ROOT)) in FILES_TO_WRITE:
        return  # its reader registers another name
    assert {name for code in codes for name in re.findall(r'divergence="(\w+)"', code)} <= adiw.DIVERGENCES.keys()
    assert {code for code in codes if re.fullmatch(r"(adiw|two-step)-[a-z]+", code)} <= METHODS.keys()


@each_page
def test_rows_of_a_table_are_complete(page: Path) -> None:
    for table in re.findall(r"(?:^\|.*\|$\n?)+", page.read_text(encoding="utf-8"), re.MULTILINE):
        assert len({line.replace(r"\|", "").count("|") for line in table.splitlines()}) == 1, table


@pytest.mark.parametrize("code", ["adiw.ADWI", "adiw.divergences.Kl", "adiw.ADIW(..., capp=5)", "adiw.nothing.here"])
def test_a_name_that_does_not_exist_is_found(code: str) -> None:
    with pytest.raises((AttributeError, ImportError, TypeError)):
        check_code(code)


@each_page
def test_files_of_the_repository_exist(page: Path) -> None:
    if str(page.relative_to(ROOT)) in FILES_TO_WRITE:
        return
    for path in quoted(page.read_text(encoding="utf-8")):
        if re.fullmatch(rf"(?:{FOLDERS})/[\w./-]*", path):
            assert (ROOT / path).exists(), path


def options() -> set[str]:
    """Every option of the command, and of the scripts of this repository."""
    parameters = [option for _, command in commands.commands() for option in command.params]
    found = {name for option in parameters for name in (*option.opts, *option.secondary_opts)}
    scripts = [file.read_text() for folder in ("benchmarks", "versions") for file in (ROOT / folder).glob("*.py")]
    return found | {name for text in scripts for name in re.findall(r'add_argument\("(--[\w-]+)"', text)}


@each_page
def test_options_exist(page: Path) -> None:
    known = options() | {"--shutdown-timeout"}  # torchrun's
    for text in quoted(page.read_text(encoding="utf-8")):
        if option := re.match(r"--[a-z][\w-]*", text):
            assert option[0] in known, text


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_to_files(name: str) -> None:
    """mkdocs checks the links of the site; these pages are read in the repository."""
    for link in re.findall(r"\]\(([\w./-]+)\)", (ROOT / name).read_text(encoding="utf-8")):
        assert (ROOT / link).exists(), link


@pytest.mark.parametrize("divergence", adiw.DIVERGENCES.values(), ids=lambda divergence: divergence.__name__)
def test_the_table_of_defaults_is_true_to_the_code(divergence: type) -> None:
    rows = re.findall(rf"^\| `{divergence.__name__}` \|.*$", page("widths-and-steps.md"), re.MULTILINE)
    shown = dict(re.findall(r"`(\w+)=([^`]+)`", rows[0]))
    defaults = inspect.signature(divergence).parameters
    assert {"width", "scale", "step_size"} & defaults.keys() <= shown.keys()
    for setting, value in shown.items():
        assert str(defaults[setting].default) == value.strip('"'), setting


@pytest.mark.parametrize("name", adiw.DIVERGENCES)
def test_every_divergence_has_its_formula_and_its_row_of_the_gauntlet(name: str) -> None:
    rows = re.findall(rf"^\| (`\"{name}\"`|{name}) \|(.*)$", page("divergences.md"), re.MULTILINE)
    assert any("$" in row for _, row in rows), "a formula"
    assert any("worse" not in row and re.search(r"[+-]\d+\.\d\d", row) for _, row in rows), "a row of the gauntlet"


def test_exit_codes() -> None:
    shown = {int(code) for code in re.findall(r"^\| (\d+) \|", page("troubleshooting.md"), re.MULTILINE)}
    assert shown == {0, console.BAD_INPUT, console.DEAD, console.STOPPED}


def test_the_files_of_a_run_and_the_columns_of_its_audit(tmp_path: Path) -> None:
    run(resolve({"dataset": "digits", "epochs": 4}), tmp_path)
    _, of_audit, rest = re.split(r"^\| (?:column|file) \|.*$", page("reading-results.md"), flags=re.MULTILINE)
    written = {file.name for file in tmp_path.iterdir()}
    assert written | {"checkpoint-previous.pt"} == set(first_column(rest))  # that one is written by longer runs
    with (tmp_path / "audit.csv").open("w", newline="") as file:
        load_audit(tmp_path).to_csv(file)
    with (tmp_path / "audit.csv").open() as file:
        columns = next(csv.reader(file))
    always = [name for name in columns if not name.startswith("epoch_")]
    assert [name for name in first_column(of_audit) if not name.startswith("epoch_")] == always
    assert json.loads((tmp_path / "result.json").read_text())["status"] == "done"


def first_column(table: str) -> list[str]:
    """The quoted names in the first column of a table."""
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    return [name for row in rows for name in re.findall("`(.+?)`", row)]


def test_every_field_of_a_summary_is_explained() -> None:
    for field in adiw.Summary.__dataclass_fields__:
        assert field == "steps" or re.search(rf"^\| .*`{field}`", page("reading-results.md"), re.MULTILINE), field


def test_gpu_tests_are_in_their_folder() -> None:
    files = (ROOT / "tests").rglob("test_*.py")
    marked = {file for file in files if re.search(r"pytest\.mark\.gpu", file.read_text(encoding="utf-8"))}
    assert marked - {Path(__file__)} == set((ROOT / "tests" / "gpu").glob("test_*.py"))
