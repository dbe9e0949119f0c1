"""A benchmark's results as JSON, written anew after each of them: what was measured survives what comes next."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


class Record:
    """Rows under a heading. The file is not touched before the first row: a failed start leaves the last results."""

    def __init__(self, path: Path, **heading: Any) -> None:
        self.path, self.heading = path, heading
        self.rows: list[dict[str, Any]] = []

    def add(self, *rows: dict[str, Any]) -> None:
        """Append rows and write the file, all or nothing."""
        self.rows += rows
        self.path.parent.mkdir(parents=True, exist_ok=True)
        aside = self.path.with_suffix(".part")
        aside.write_text(json.dumps({**self.heading, "rows": self.rows}, indent=1) + "\n")
        os.replace(aside, self.path)


def first_line(error: Exception) -> str:
    """What went wrong, in one line.

    >>> first_line(ValueError("no such thing\\n at all"))
    'ValueError: no such thing'
    """
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:200]}" if text else type(error).__name__
