"""Write a record of the coverage: ``make coverage`` runs the suite, then this.

``python -m torture.covered`` reads .coverage, writes results/torture/coverage.json and fails below the goal. It has
no ``main``, because it is not one of the checks of ``python -m torture``.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from torture.commit import ROOT, commit

RECORD = ROOT / "results" / "torture" / "coverage.json"
GOAL = 95.0  # percent of lines and of branches


def write_record() -> bool:
    """Write the record; return whether lines and branches are above the goal."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "coverage.json"
        subprocess.run([sys.executable, "-m", "coverage", "json", "-q", "-o", str(report)], cwd=ROOT, check=True)
        record = summary(json.loads(report.read_text()))
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    print(f"lines {record['lines']}%, branches {record['branches']}% (goal: {GOAL}% of both)")
    return min(record["lines"], record["branches"]) > GOAL


def summary(report: dict[str, Any]) -> dict[str, Any]:
    """Percent of lines and branches, and for each file the lines and branches that are not covered."""
    totals = report["totals"]
    files = {name: _file(file) for name, file in sorted(report["files"].items())}
    lines = _percent(totals["covered_lines"], totals["num_statements"])
    branches = _percent(totals["covered_branches"], totals["num_branches"])
    return {
        "check": "coverage",
        "about": "lines and branches of src/ that the test suite runs, on a machine without a GPU",
        "counts": {"files": len(files), "% of the lines": lines, "% of the branches": branches},
        "wrong": [] if min(lines, branches) > GOAL else [f"the goal is {GOAL}% of both"],
        "lines": lines,
        "branches": branches,
        "goal": GOAL,
        "commit": commit(),
        "python": platform.python_version(),
        "torch": version("torch"),
        "coverage": report["meta"]["version"],
        "gpu": False,
        "lacking": {name: file for name, file in files.items() if file},
    }


def _file(file: dict[str, Any]) -> dict[str, Any]:
    """The lines and branches that no test runs, such as {"lines": [12], "branches": [[7, 9]]} (from line 7 to 9)."""
    missing = {"lines": file["missing_lines"], "branches": file["missing_branches"]}
    return {name: found for name, found in missing.items() if found}


def _percent(part: int, whole: int) -> float:
    return round(100 * part / max(whole, 1), 2)


if __name__ == "__main__":
    sys.exit(0 if write_record() else 1)
