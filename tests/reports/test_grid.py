"""Tables in their four formats."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
from pathlib import Path

import pytest

from adiw.reports.grid import Box, Grid, Head, to_csv, to_latex, to_markdown, to_text

GRID = Grid(
    "Accuracy (%)",
    [
        Head("method"),
        Head("ours", "0.3 pair"),
        Head("paper", "0.3 pair"),
        Head("ours", "a long head over a column"),
    ],
    [
        [Box("Val-Only"), Box("79.29 (0.86)"), Box("-"), Box("missing")],
        [Box("DIW_Val"), Box("90.00 (0.11)", bold=True), Box("1"), Box('2 of 3, "1" dead')],
    ],
    ["Mean (std) of 100% of the trials & epochs."],
)


def test_text_is_aligned_and_marks_what_is_bold() -> None:
    assert to_text(GRID) == (
        "Accuracy (%)\n"
        "\n"
        "          0.3 pair              a long head over a column\n"
        "method             ours  paper              ours\n"
        "--------  -------------  -----  ----------------\n"
        "Val-Only   79.29 (0.86)      -           missing\n"
        'DIW_Val   90.00 (0.11)*      1  2 of 3, "1" dead\n'
        "\n"
        "Mean (std) of 100% of the trials & epochs.\n"
    )


def test_markdown_has_one_line_of_heads() -> None:
    lines = to_markdown(GRID).splitlines()
    assert lines[2] == "| method | 0.3 pair, ours | 0.3 pair, paper | a long head over a column, ours |"
    assert lines[3] == "| --- | ---: | ---: | ---: |"
    assert lines[5] == '| DIW\\_Val | **90.00 (0.11)** | 1 | 2 of 3, "1" dead |'
    assert lines[-1] == "- Mean (std) of 100% of the trials & epochs."


def test_latex_spans_the_groups_and_escapes() -> None:
    text = to_latex(GRID)
    assert r"\caption{Accuracy (\%)}" in text
    assert r"\multicolumn{1}{c}{} & \multicolumn{2}{c}{0.3 pair} & \multicolumn{1}{c}{a long" in text
    assert r"DIW\_Val & \textbf{90.00 (0.11)} & 1 & " in text
    assert r"of the trials \& epochs." in text


def test_csv_is_read_back_unchanged() -> None:
    rows = list(csv.reader(io.StringIO(to_csv(GRID))))
    assert rows[0] == [head.full for head in GRID.head]
    assert rows[1:] == [[box.text for box in row] for row in GRID.rows]


@pytest.mark.parametrize("sign", list("\\`*_{}[]<>|~"))
def test_markdown_escapes_every_special_character(sign: str) -> None:
    assert f"| a\\{sign}b |" in to_markdown(Grid("T", [Head("x")], [[Box(f"a{sign}b")]]))


@pytest.mark.parametrize(
    ("sign", "written"), [("\\", r"\textbackslash{}"), ("~", r"\textasciitilde{}"), ("#", r"\#"), ("_", r"\_")]
)
def test_latex_escapes_every_special_character(sign: str, written: str) -> None:
    assert f"a{written}b" in to_latex(Grid("T", [Head("x")], [[Box(f"a{sign}b")]]))


def test_without_groups_there_is_no_line_for_them() -> None:
    plain = Grid("T", [Head("a"), Head("b")], [[Box("1"), Box("2")]])
    assert to_text(plain) == "T\n\na  b\n-  -\n1  2\n"
    assert "multicolumn" not in to_latex(plain)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex here")
def test_latex_compiles_it(tmp_path: Path) -> None:
    page = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}" + to_latex(GRID) + "\\end{document}"
    (tmp_path / "t.tex").write_text(page)
    subprocess.run(["pdflatex", "-halt-on-error", "t.tex"], cwd=tmp_path, check=True, capture_output=True, timeout=60)
