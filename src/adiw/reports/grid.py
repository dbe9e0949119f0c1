"""A table of texts, and its formats: plain text, Markdown, LaTeX (booktabs) and CSV."""

from __future__ import annotations

import csv
import io
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from adiw.label_audit import no_formula

NONE = "\N{EN DASH}"  # the text of a box without a figure
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|~])")
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: "\\" + sign for sign in "&%$#_{}"},
}


@dataclass(frozen=True)
class Box:
    """One cell: its text, and whether it is set in bold."""

    text: str
    bold: bool = False


@dataclass(frozen=True)
class Head:
    """The head of a column; adjacent columns of one group share a second head above."""

    name: str
    group: str = ""

    @property
    def full(self) -> str:
        return f"{self.group}, {self.name}" if self.group and self.name else self.group or self.name


@dataclass(frozen=True)
class Grid:
    """A table: a title, the columns' heads, rows of boxes (as many as heads), and notes below.

    >>> grid = Grid("Accuracy", [Head("method"), Head("%")], [[Box("KL"), Box("88.70", bold=True)]], ["One trial."])
    >>> print(to_text(grid))
    Accuracy
    <BLANKLINE>
    method       %
    ------  ------
    KL      88.70*
    <BLANKLINE>
    One trial.
    <BLANKLINE>
    """

    title: str
    head: Sequence[Head]
    rows: Sequence[Sequence[Box]]
    notes: Sequence[str] = ()

    @property
    def spans(self) -> list[tuple[str, int]]:
        """(group, number of its columns) above the heads; empty if no column has a group."""
        found = [(group, len(list(members))) for group, members in groupby(head.group for head in self.head)]
        return found if any(group for group, _ in found) else []


def to_text(grid: Grid) -> str:
    """For a terminal: columns aligned, the first to the left; a star after bold text."""
    names = [head.name for head in grid.head]
    body = [[box.text + ("*" if box.bold else "") for box in row] for row in grid.rows]
    widths = [max(map(len, column)) for column in zip(names, *body, strict=True)]
    above, at = "", 0
    for group, count in grid.spans:  # each group begins above its first column
        above = (above and f"{above}  ").ljust(sum(widths[:at]) + 2 * at) + group
        at += count
    lines = [names, ["-" * width for width in widths], *body]
    texts = ["  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() for line in lines]
    notes = [textwrap.fill(note, 110, subsequent_indent="  ") for note in grid.notes]
    return "\n".join([grid.title, "", *filter(None, [above]), *texts, *(["", *notes] if notes else [])]) + "\n"


def to_markdown(grid: Grid) -> str:
    """For GitHub: one line of heads, bold between two stars.

    >>> print(to_markdown(Grid("T", [Head("a"), Head("b", "G")], [[Box("x_1"), Box("2|3", bold=True)]])))
    ### T
    <BLANKLINE>
    | a | G, b |
    | --- | ---: |
    | x\\_1 | **2\\|3** |
    <BLANKLINE>
    """
    rows = [[_bold(box, _markdown, "**{}**") for box in row] for row in grid.rows]
    lines = [[_markdown(head.full) for head in grid.head], ["---"] + ["---:"] * (len(grid.head) - 1), *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    notes = "".join(f"\n- {_markdown(note)}" for note in grid.notes)
    return f"### {_markdown(grid.title)}\n\n{table}\n" + (f"{notes}\n" if notes else "")


def to_latex(grid: Grid) -> str:
    """For a paper; needs the LaTeX package booktabs."""
    groups = [rf"\multicolumn{{{count}}}{{c}}{{{_latex(group)}}}" for group, count in grid.spans]
    heads = [_latex(head.name) for head in grid.head]
    rows = [[_bold(box, _latex, r"\textbf{{{}}}") for box in row] for row in grid.rows]
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{_latex(grid.title)}}}"]
    lines += [rf"\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}", r"\toprule"]
    lines += [" & ".join(line) + r" \\" for line in (groups, heads) if line]
    lines += [r"\midrule", *(" & ".join(row) + r" \\" for row in rows), r"\bottomrule", r"\end{tabular}", ""]
    lines += [rf"{{\footnotesize\raggedright {_latex(note)}\par}}" for note in grid.notes]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def to_csv(grid: Grid) -> str:
    """For other programs: the heads and the boxes' texts, without title and notes."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([head.full for head in grid.head])
    writer.writerows([no_formula(box.text) for box in row] for row in grid.rows)
    return text.getvalue()


def write_grid(grid: Grid, folder: Path, name: str, figures: Grid | None = None) -> list[Path]:
    """Write the table as .txt, .md, .tex and .csv (of ``figures`` where given); returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"txt": to_text(grid), "md": to_markdown(grid), "tex": to_latex(grid), "csv": to_csv(figures or grid)}
    files = {folder / f"{name}.{ending}": text for ending, text in texts.items()}
    for file, text in files.items():
        file.write_text(text, encoding="utf-8")
    return list(files)


def _bold(box: Box, escape: Callable[[str], str], form: str) -> str:
    return form.format(escape(box.text)) if box.bold else escape(box.text)


def _markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", " ".join(text.splitlines()))


def _latex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in " ".join(text.splitlines()))
