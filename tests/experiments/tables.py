"""A small table with well separated classes, whose first column numbers its rows."""

from __future__ import annotations

import random
from pathlib import Path


def write_table(path: Path, rows: int = 90, classes: tuple[str, ...] = ("ant", "bee", "cat"), seed: int = 0) -> Path:
    """Columns number, a, b, kind; class c lies around (2c, -2c)."""
    draw = random.Random(seed)
    lines = ["number,a,b,kind"]
    for row in range(rows):
        c = row % len(classes)
        lines.append(f"{row},{draw.gauss(2 * c, 0.3):.6f},{draw.gauss(-2 * c, 0.3):.6f},{classes[c]}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path
