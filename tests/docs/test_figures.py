"""The figures of the pages are those that the records give."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

figures = pytest.importorskip("draw_figures", reason="needs the extra adiw[cli]")
ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "figures"
DRAWN_WITH = re.findall(r"^matplotlib==(\d+\.\d+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)[0]
HASH = r"(?<=[#\"])[a-z][0-9a-f]{10}\b"  # the name of a shape, which changes with the last digit of its coordinates
NUMBER = r"-?\d+(?:\.\d+)?(?:e-?\d+)?"


@pytest.mark.skipif(
    not figures.mpl.__version__.startswith(f"{DRAWN_WITH}."), reason=f"drawn with matplotlib {DRAWN_WITH}"
)
def test_the_figures_are_up_to_date(tmp_path: Path) -> None:
    drawn = figures.main(tmp_path)
    assert {file.name for file in drawn} == {file.name for file in FOLDER.iterdir()}
    for file in drawn:
        new, old = (re.sub(HASH, "shape", path.read_text()) for path in (file, FOLDER / file.name))
        assert re.sub(NUMBER, "#", new) == re.sub(NUMBER, "#", old), f"{file.name}: run make draw"
        found, expected = ([float(number) for number in re.findall(NUMBER, text)] for text in (new, old))
        assert found == pytest.approx(expected, abs=1.0), f"{file.name}: run make draw"  # of about 600 points


@pytest.mark.parametrize("name", figures.FIGURES)
def test_every_figure_is_on_a_page_and_small(name: str) -> None:
    pages = "".join(page.read_text() for page in FOLDER.parent.glob("*.md"))
    assert f"(figures/{name}.svg)" in pages
    assert (FOLDER / f"{name}.svg").stat().st_size < 100_000
