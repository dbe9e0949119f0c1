"""Run the tests with other versions: ``python versions/run.py lowest --python python3.11 [tests/baselines ...]``.

Creates an environment from versions/NAME.txt, runs each part of the tests in its own process, and writes
results/versions/NAME.json: versions, commit, and for each part the number of passed tests, the failed tests, and the
number of skipped tests by reason. A part that is not run keeps its record if Python, torch and numpy are the same.
That record then has the commit of that run and the other versions that differ (``with``). ``--as-is`` runs with the
packages of an existing interpreter; versions/NAME.txt then only lists which versions to record.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
EXCLUDED = {"gpu"}  # needs a CUDA device
TOOLS = ["pytest==9.2.0", "hypothesis==6.170.15", "hatchling==1.33.0", "packaging"]
BAD = {"failure", "error"}  # elements of a JUnit report
PACKAGES = """
import json, platform, sys
from importlib import metadata
found = {name: metadata.version(name) for name in sys.argv[1:] if next(metadata.distributions(name=name), None)}
print(json.dumps({"python": platform.python_version(), **found}))
"""
BASE = ("python", "torch", "numpy")


def parts() -> list[str]:
    """The files directly in tests/ as one part, each folder of tests/, and the doctests of src/."""
    folders = (path for path in (ROOT / "tests").iterdir() if path.is_dir() and list(path.glob("test_*.py")))
    return ["tests/*.py", *sorted(f"tests/{path.name}" for path in folders if path.name not in EXCLUDED), "src"]


def prepare(python: str, folder: Path, pins: Path) -> str:
    """The interpreter of an environment with these versions; an existing environment is not changed."""
    interpreter = str(folder / "bin" / "python")
    if not folder.exists():
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
        command = [interpreter, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", "-r", str(pins), *TOOLS]
        subprocess.run(command, check=True)
    return interpreter


def paths(part: str) -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(part))


def run(interpreter: str, tests: list[str]) -> dict[str, Any]:
    """Run these tests and return their counts. Warnings are not errors here: other versions warn differently."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.xml"
        command = [interpreter, "-m", "pytest", "-o", "filterwarnings=default", f"--junitxml={file}", *tests]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
        subprocess.run(command, cwd=ROOT, env=environment)
        return count(file)


def node(name: str) -> str:
    """The pytest name of a test in a report: tests.cli.test_run::test_a -> tests/cli/test_run.py::test_a."""
    module, _, test = name.partition("::")
    return f"{module.replace('.', '/')}.py::{test}"


def count(report: Path) -> dict[str, Any]:
    """The counts of a JUnit report."""
    cases = list(ElementTree.parse(report).iter("testcase"))
    failed = [f"{c.get('classname')}::{c.get('name')}" for c in cases if not {e.tag for e in c}.isdisjoint(BAD)]
    skipped = Counter(reason(mark) for case in cases for mark in case.iter("skipped"))
    passed = len(cases) - len(failed) - skipped.total()
    return {"passed": passed, "failed": failed, "skipped": dict(sorted(skipped.items()))}


def kept(old: dict[str, Any], versions: dict[str, str]) -> dict[str, Any]:
    """The parts of an older record, each with the versions that differ from the present ones."""
    others = {name: version for name, version in old["versions"].items() if versions.get(name) != version}
    return {name: {**part, "with": {**others, **part["with"]}} for name, part in old["parts"].items()}


def reason(mark: ElementTree.Element) -> str:
    """Why a test was skipped. For a file that is skipped as a whole the reason is in the text."""
    message = mark.get("message", "")
    return (mark.text or "").partition("Skipped: ")[2][:-2] if message == "collection skipped" else message


def commit() -> str:
    """The commit, with the suffix "-dirty" if anything but these records differs from it."""
    changed = git("status", "--porcelain", "--", ".", ":!results/versions")
    return git("rev-parse", "--short=12", "HEAD") + ("-dirty" if changed else "")


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="a file in versions/: lowest, newest or python312")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that creates the environment")
    parser.add_argument("--environment", type=Path, help="folder of the environment (.venv-NAME)")
    parser.add_argument("--as-is", action="store_true", help="use --python with its packages, no new environment")
    parser.add_argument("--failed", action="store_true", help="run only the tests that failed in these parts")
    parser.add_argument("parts", nargs="*", help="parts of the tests (default: all but gpu)")
    given = parser.parse_intermixed_args()  # parts may come after an option
    pins = ROOT / "versions" / f"{given.name}.txt"
    folder = given.environment or ROOT / f".venv-{given.name}"
    interpreter = given.python if given.as_is else prepare(given.python, folder, pins)
    names = [line.partition("==")[0] for line in pins.read_text().splitlines() if "==" in line]
    shown = subprocess.run([interpreter, "-c", PACKAGES, *names], capture_output=True, text=True, check=True).stdout
    target = ROOT / "results" / "versions" / f"{given.name}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    old = json.loads(target.read_text()) if target.exists() else {"versions": {}, "parts": {}}
    record = {"versions": json.loads(shown), "parts": {}}
    if all(old["versions"].get(name) == record["versions"].get(name) for name in BASE):
        record["parts"] = kept(old, record["versions"])
    made_at = commit()
    for part in given.parts or parts():
        if not given.failed:
            record["parts"][part] = {**run(interpreter, paths(part)), "with": {}, "commit": made_at}
        elif failed := record["parts"][part]["failed"]:
            again = run(interpreter, [node(name) for name in failed])
            record["parts"][part]["passed"] += again["passed"]
            record["parts"][part] |= {"failed": again["failed"], "again": made_at}
        target.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
