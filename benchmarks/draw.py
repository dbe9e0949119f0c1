"""Draw the tables of the pages from the results: ``python benchmarks/draw.py [PAGE ...]``.

A table is between ``<!-- bench: KIND [NAME ...] -->`` and ``<!-- end of bench -->``. It is drawn from
results/KIND-NAME.json by ``tables.TABLES[KIND]``; the kinds ``scale`` and ``goals`` have their own modules. A table
without results is drawn as one sentence.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import goals
import scale_tables
import tables

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (RESULTS / "README.md", ROOT / "docs" / "scale.md")
_MARKED = re.compile(r"(<!-- bench: ([^\n]+?) -->\n).*?(<!-- end of bench -->)", re.DOTALL)
NOT_YET = "Not measured yet."


def draw(text: str, results: Path) -> str:
    """The page with every marked table drawn from the results."""
    return _MARKED.sub(lambda match: f"{match[1]}\n{table(match[2].split(), results)}\n\n{match[3]}", text)


def table(words: list[str], results: Path) -> str:
    """The table that a marker names."""
    kind, *names = words
    if kind == "scale":
        counted, timed = tables.load(results / "scale.json"), tables.load(results / "growth-cuda.json")
        return NOT_YET if counted is None else scale_tables.TABLES[names[0]](counted, timed)
    if kind == "goals":
        return goals.table(results) or NOT_YET
    if kind not in tables.TABLES:
        raise ValueError(f"unknown table {kind!r}: expected scale, goals or one of {', '.join(tables.TABLES)}")
    content = tables.load(results / f"{'-'.join(words)}.json")
    return NOT_YET if content is None else tables.TABLES[kind](content)


def main(given: list[str] | None = None) -> None:
    names = sys.argv[1:] if given is None else given
    for page in [Path(name) for name in names] or PAGES:
        page.write_text(draw(page.read_text(), RESULTS))


if __name__ == "__main__":
    main()
