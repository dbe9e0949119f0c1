"""The last measurement of coverage as a small record: ``make coverage`` runs the suite, then this.

``python -m torture.covered`` reads .coverage, writes results/torture/coverage.json and fails below the goal. It is no
check of `make torture`, so it has no ``main``: the suite itself is what it measures.
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

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "results" / "torture" / "coverage.json"
GOAL = 95.0  # percent of lines and of branches


def write_record() -> bool:
    """Write the record from the measurement; whether lines and branches are above the goal."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "coverage.json"
        subprocess.run([sys.executable, "-m", "coverage", "json", "-q", "-o", str(report)], cwd=ROOT, check=True)
        record = summary(json.loads(report.read_text()))
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    print(f"lines {record['lines']}%, branches {record['branches']}% (goal: {GOAL}% of both)")
    return min(record["lines"], record["branches"]) > GOAL


def summary(report: dict[str, Any]) -> dict[str, Any]:
    """Percent of lines and branches in all, and for each file with what it lacks."""
    totals = report["totals"]
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    files = {name[name.index("src/") :]: _file(file) for name, file in sorted(report["files"].items())}
    return {
        "lines": _percent(totals["covered_lines"], totals["num_statements"]),
        "branches": _percent(totals["covered_branches"], totals["num_branches"]),
        "goal": GOAL,
        "commit": commit.stdout.strip(),
        "python": platform.python_version(),
        "torch": version("torch"),
        "coverage": report["meta"]["version"],
        "gpu": False,
        "files": files,
    }


def _file(file: dict[str, Any]) -> dict[str, Any]:
    """{"percent": 97.5, "missing": [12]}; without "missing" where nothing is."""
    lacks = {"missing": file["missing_lines"]} if file["missing_lines"] else {}
    return {"percent": round(file["summary"]["percent_covered"], 2), **lacks}


def _percent(part: int, whole: int) -> float:
    return round(100 * part / max(whole, 1), 2)


if __name__ == "__main__":
    sys.exit(0 if write_record() else 1)
