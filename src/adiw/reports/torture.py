"""The table of docs/reliability.md: a line for each record in results/torture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def table(folder: Path) -> str:
    """What each check did and found, as a Markdown table."""
    records = [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]
    lines = ["| check | what is tried | what came of it | commit |", "| --- | --- | --- | --- |"]
    return "\n".join(lines + [_line(record) for record in records]) + "\n"


def _line(record: dict[str, Any]) -> str:
    """
    >>> _line({"check": "kills", "about": "kill -9", "counts": {"kills": 200, "lost": 0}, "commit": "a1"})
    '| kills | kill -9 | 200 kills, 0 lost | a1 |'
    """
    found = ", ".join(f"{count} {what}" for what, count in record["counts"].items())
    return f"| {record['check']} | {record['about']} | {found} | {record['commit']} |"
