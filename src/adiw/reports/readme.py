"""Tables of a Markdown page, drawn from the records of runs: ``python -m adiw.reports.readme README.md``.

A table stands between ``<!-- table: results/digits/summary.json -->`` and ``<!-- end of table -->``; a folder in the
place of the file is a sweep's, whose accuracy table is drawn beside the paper's figures, or a profile's, or that of
the records of ``make torture``. ``brief:`` with a sweep's folder is a short form of its accuracy table;
``divergences:`` with the folder of all results is the table of the divergences in all sweeps.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from adiw.reports import torture
from adiw.reports.advice import divergence_table
from adiw.reports.grid import to_markdown
from adiw.reports.stage_table import FILE, recorded_stages
from adiw.reports.sweeps import read_sweep
from adiw.reports.tables import accuracy_table, brief_table

_DIGITS = {"mean": 2, "std": 2, "seconds_per_epoch": 3}
_TABLE = re.compile(r"(<!-- (table|brief|divergences): (\S+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def draw(text: str, root: Path) -> str:
    """The page with every table drawn anew from its record, which is looked for below ``root``."""
    return _TABLE.sub(lambda m: m[1] + _draw(m[2], root / m[3]) + m[4], text)


def _draw(kind: str, record: Path) -> str:
    if kind == "divergences":
        return to_markdown(divergence_table(record))
    if kind == "brief":
        return to_markdown(brief_table(read_sweep(record)))
    if record.is_dir() and not (record / "recipe.json").exists():
        return torture.table(record)
    if (record / FILE).exists():
        return "\n".join(map(to_markdown, recorded_stages(record)))
    if record.is_dir():
        return to_markdown(accuracy_table(read_sweep(record)))
    return table(json.loads(record.read_text()))


def table(summary: dict[str, Any]) -> str:
    """A summary's rows as a Markdown table; runs that did not finish are said.

    >>> row = {"method": "uniform", "mean": 73.694, "std": 1.5, "seconds_per_epoch": 0.02, "note": ""}
    >>> print(table({"rows": [row]}))
    | method | accuracy % (std) | s / epoch |
    | --- | ---: | ---: |
    | uniform | 73.69 (1.50) | 0.020 |
    <BLANKLINE>
    """
    lines = ["| method | accuracy % (std) | s / epoch |", "| --- | ---: | ---: |"]
    for row in summary["rows"]:
        note = f" {row['note']}" if row["note"] else ""
        mean, std, seconds = (_figure(row[key], digits) for key, digits in _DIGITS.items())
        lines.append(f"| {row['method']} | {mean} ({std}){note} | {seconds} |")
    return "\n".join(lines) + "\n"


def _figure(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def main() -> None:
    for name in sys.argv[1:]:
        page = Path(name)
        page.write_text(draw(page.read_text(), page.parent))


if __name__ == "__main__":
    main()
