"""The site: it builds strictly, needs no network, and shows every public name, every option and every equation."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

NEEDS = "needs the extra adiw[docs]"
api, commands, maths = (pytest.importorskip(name, reason=NEEDS) for name in ("api", "commands", "maths"))
fenced = pytest.importorskip("doctests", reason=NEEDS).fenced
PluginError = pytest.importorskip("mkdocs.exceptions", reason=NEEDS).PluginError
pytest.importorskip("material", reason=NEEDS)
pytest.importorskip("mkdocstrings", reason=NEEDS)

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    surroundings = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=surroundings, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def source() -> Any:
    """The library as griffe reads it."""
    return api.load(ROOT / "src")


class Loaded(HTMLParser):
    """What a page loads by itself: scripts, styles, pictures, frames."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        names = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
        if tag in names:
            self.found += [value for name, value in attributes if name == names[tag] and value]


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        for address in Loaded(page).found:
            assert not re.match(r"(\w+:)?//", address), f"{page.name} loads {address}"
            if page.name != "404.html":  # its addresses are the server's
                assert (page.parent / address.partition("?")[0].partition("#")[0]).exists(), f"{page.name}: {address}"
    for style in site.rglob("*.css"):
        assert not re.search(r"@import|url\([\"']?(https?:)?//", style.read_text(encoding="utf-8")), style.name


def test_every_equation_is_drawn_without_a_script(site: Path) -> None:
    page, source = (site / "maths.html").read_text(), (ROOT / "docs" / "maths.md").read_text()
    equations = source.count("$$") // 2
    assert page.count('display="block"') == equations > 5
    assert page.count("<math ") > 60
    for file in site.rglob("*.html"):
        assert "arithmatex" not in file.read_text(encoding="utf-8"), file.name


@pytest.mark.parametrize("name", sorted(page.stem for page in (ROOT / "docs" / "api").glob("*.md")))
def test_the_reference_shows_what_its_pages_name(site: Path, source: Any, name: str) -> None:
    page = (site / "api" / f"{name}.html").read_text()
    for path in re.findall(r"^::: (\S+)", (ROOT / "docs" / "api" / f"{name}.md").read_text(), re.MULTILINE):
        module = api.at(source, path).is_module
        members = [f"{path}.{member}" for member in api.public_names(source, path)] if module else [path]
        assert len(members) > 0
        for member in members:
            assert f'id="{member}"' in page or api.at(source, member).is_module, member
    assert "&gt;&gt;&gt;" not in re.sub(r"<pre>.*?</pre>", "", page, flags=re.DOTALL)  # examples are blocks of code


def test_the_reference_of_the_command_has_every_option(site: Path) -> None:
    page = (site / "commands.html").read_text()
    options = {name for _, command in commands.commands() for option in command.params for name in option.opts}
    assert len(options) > 20
    for name in options:
        assert name in page, name


def package(folder: Path, text: str) -> Any:
    (folder / "adiw").mkdir()
    (folder / "adiw" / "__init__.py").write_text(text)
    return api.load(folder)


GOOD = (
    '__all__ = ["A", "f"]\ndef f():\n    """F."""\nclass A:\n    """A."""\n    def run(self):\n        """Run."""\n'
)


def test_a_whole_reference_has_nothing_missing(tmp_path: Path) -> None:
    assert api.missing(package(tmp_path, GOOD), ["adiw.A", "adiw.f"], ("adiw",)) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('    """F."""', "    pass", "adiw.f has no docstring"),
        ('"""A."""', "x = 1", "adiw.A has no docstring"),
        ('"""Run."""', "pass", "adiw.A.run has no docstring"),
        ('["A", "f"]', '["A", "f", "g"]\ng = f', "adiw.g has no docstring"),
        ('["A", "f"]', '["A", "f", "g"]\ndef g():\n    """G."""', "adiw.g is on no page of docs/api"),
    ],
)
def test_a_public_name_without_a_docstring_or_a_place_is_found(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    assert GOOD.count(old) == 1
    assert problem in api.missing(package(tmp_path, GOOD.replace(old, new)), ["adiw.A", "adiw.f"], ("adiw",))


def test_a_method_that_a_protocol_describes_needs_no_docstring(tmp_path: Path) -> None:
    text = GOOD.replace('"""Run."""', "pass")
    text += 'class Runs(Protocol):\n    """P."""\n    def run(self):\n        """Run."""\n'
    assert api.missing(package(tmp_path, text), ["adiw.A", "adiw.f"], ("adiw",)) == []


def test_what_is_missing_ends_the_build(tmp_path: Path) -> None:
    (tmp_path / "api").mkdir()
    with pytest.raises(PluginError, match=r"adiw\.ADIW is on no page of docs/api"):
        api.on_pre_build(type("Config", (), {"docs_dir": str(tmp_path)}))


def test_a_macro_that_is_not_known_ends_the_build() -> None:
    page = type("Page", (), {"file": type("File", (), {"src_uri": "maths.md"})})
    good, bad = (rf'<span class="arithmatex">\({latex}\)</span>' for latex in (r"\frac{1}{n}", r"\fracc{1}{n}"))
    assert "<mfrac>" in maths.on_page_content(good, page)
    with pytest.raises(PluginError, match=r"maths\.md: \\fracc is not known"):
        maths.on_page_content(bad, page)


@pytest.mark.parametrize("name", ["blocks", "commands", "draw_tables", "pages"])
def test_the_examples_of_the_tools(name: str) -> None:
    found = doctest.testmod(pytest.importorskip(name, reason=NEEDS))
    assert (found.failed, found.attempted > 0) == (0, True)


def test_doctests_in_the_middle_of_a_docstring_are_fenced() -> None:
    assert fenced("A.\n\n    >>> 1\n    1\n\nB.") == "A.\n\n    ```pycon\n    >>> 1\n    1\n    ```\n\nB."
    assert fenced("No example.") == "No example."
