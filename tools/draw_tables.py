"""Draw the tables of Markdown pages from records: ``make draw``.

A table is between ``<!-- KIND: RECORD -->`` and ``<!-- end of table -->``. RECORD is a path from the page:

- ``table: .../summary.json``: the table of ``adiw demo``;
- ``table: FOLDER``: the records of ``make torture``;
- ``divergences: FOLDER``: all divergences in all sweeps below the folder;
- ``registry: divergences``: the table of divergences in the code, with what each matches and costs;
- the kinds in ``paper.tables``: results, deviations, times and stages beside those of the paper.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from adiw.divergences import DIVERGENCES, capabilities
from adiw.reports.grid import NONE, to_markdown
from divergence_table import divergence_table
from paper.tables import DRAWN

_DIGITS = {"mean": 2, "std": 2, "seconds_per_epoch": 3}
_KINDS = "|".join(("table", "divergences", "registry", *DRAWN))
_TABLE = re.compile(rf"(<!-- ({_KINDS}): (\S+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def draw(text: str, root: Path) -> str:
    """The page with every table drawn from its record; the paths of records start at ``root``."""
    return _TABLE.sub(lambda match: match[1] + _draw(match[2], root / match[3]) + match[4], text)


def _draw(kind: str, record: Path) -> str:
    if kind in DRAWN:
        return DRAWN[kind](record)
    if kind == "divergences":
        return to_markdown(divergence_table(record))
    if kind == "registry":
        return registry_table()
    if record.is_file():
        return demo_table(json.loads(record.read_text()))
    return torture_table(record)


def demo_table(summary: dict[str, Any]) -> str:
    """The rows of a summary.json as a Markdown table, with a note of runs that did not finish.

    >>> row = {"method": "uniform", "mean": 73.694, "std": 1.5, "seconds_per_epoch": 0.02, "note": ""}
    >>> print(demo_table({"rows": [row]}))
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
    return NONE if value is None else f"{value:.{digits}f}"


def registry_table() -> str:
    """The capabilities of every divergence as a Markdown table."""
    lines = ["| name | class | matches | width | trains a model | cost of a step |", "| --- " * 6 + "|"]
    for name, kind in DIVERGENCES.items():
        known = capabilities(kind)
        width, learns = ("yes" if flag else "" for flag in (known.width, known.learns))
        matches = " and ".join(known.z).replace("loss", "losses")
        lines.append(f'| `"{name}"` | `{kind.__name__}` | {matches} | {width} | {learns} | {known.cost} |')
    return "\n".join(lines) + "\n"


def torture_table(folder: Path) -> str:
    """What each check of ``make torture`` did and found, as a Markdown table."""
    records = [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]
    lines = ["| check | what is tried | result | commit |", "| --- | --- | --- | --- |"]
    return "\n".join(lines + [_torture_line(record) for record in records]) + "\n"


def _torture_line(record: dict[str, Any]) -> str:
    """
    >>> _torture_line({"check": "kills", "about": "kill -9", "counts": {"kills": 200, "lost": 0}, "commit": "a1"})
    '| kills | kill -9 | 200 kills, 0 lost | a1 |'
    """
    found = ", ".join(f"{count} {what}" for what, count in record["counts"].items())
    return f"| {record['check']} | {record['about']} | {found} | {record['commit']} |"


def main() -> None:
    for name in sys.argv[1:]:
        page = Path(name)
        page.write_text(draw(page.read_text(), page.parent))


if __name__ == "__main__":
    main()
