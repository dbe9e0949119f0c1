"""The tests detect a sample of mutants, and the record of the complete run reaches its goal."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from torture import mutants
from torture.mutation.core import CORE
from torture.mutation.sample import SAMPLE, Slip

ROOT = Path(__file__).parents[2]
RECORD = json.loads(mutants.RECORD.read_text())
REASONS = """
[[survivor]]
module = "adiw/a.py"
function = "f"
changes = { "> to >=" = [1, 3], "0 to 1" = [2] }
why = "one group"

[[survivor]]
module = "adiw/b.py"
function = "f"
changes = { "> to >=" = [2] }
why = "another module"
"""


def test_the_sample_is_detected_and_unchanged_code_passes() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "torture.mutation.sample"], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    outcomes = [(verdict["mutated"], verdict["outcome"]) for verdict in json.loads(done.stdout)]
    assert sorted(outcomes) == [(False, "survived")] * 2 + [(True, "killed")] * len(SAMPLE)


def test_a_slip_changes_one_operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("class A:\n    def f(self):  # a - b\n        return 1 - 2 - 3\n")
    monkeypatch.setattr("torture.mutation.sample.ROOT", tmp_path)
    trial = Slip("a.py", "A.f", ast.Sub, ast.Add, "tests/a.py::some", number=2).trial()
    assert trial.source == "class A:\n\n    def f(self):\n        return 1 - 2 + 3"
    assert trial.tests == ["tests/a.py", "-k", "some"]
    with pytest.raises(ValueError, match=r"expected 3 of Sub in A\.f, found 2"):
        Slip("a.py", "A.f", ast.Sub, ast.Add, "tests/a.py", number=3).trial()
    with pytest.raises(ValueError, match=r"no function A\.g in this module"):
        Slip("a.py", "A.g", ast.Sub, ast.Add, "tests/a.py").trial()


def test_core_modules_and_their_tests_exist() -> None:
    for module, tests in CORE.items():
        assert (ROOT / "src" / module).is_file(), module
        assert [name for name in tests if name.endswith(".py") and not (ROOT / name).is_file()] == []


def test_reasons_are_read_by_module(tmp_path: Path) -> None:
    (tmp_path / "survivors.toml").write_text(REASONS)
    reasons = mutants.read_reasons("adiw/a.py", tmp_path / "survivors.toml")
    assert reasons == dict.fromkeys([("f", "> to >=", 1), ("f", "> to >=", 3), ("f", "0 to 1", 2)], "one group")


def test_missing_and_outdated_reasons_are_reported() -> None:
    survivor = {"function": "f", "change": "> to >=", "number": 1}
    module = {"survivors": [{**survivor, "why": ""}], "outdated": ["g: 0 to 1 (2) does not exist"]}
    assert mutants.problems({"score": 80.0, "modules": {"adiw/a.py": module}}) == [
        "the score is 80.0%, the goal 90.0%",
        "adiw/a.py, f: > to >= (1) has no reason",
        "adiw/a.py, g: 0 to 1 (2) does not exist: delete it from survivors.toml",
    ]
    explained = {"survivors": [{**survivor, "why": "one group"}]}
    assert mutants.problems({"score": 95.0, "modules": {"adiw/a.py": explained}}) == []


def test_the_record_reaches_the_goal() -> None:
    for kept in (RECORD, *RECORD["modules"].values()):
        assert kept["killed"] + kept["survived"] == kept["mutants"]
        assert kept["score"] == pytest.approx(100 * kept["killed"] / kept["mutants"], abs=0.01)
    assert RECORD["mutants"] == sum(module["mutants"] for module in RECORD["modules"].values())
    assert RECORD["score"] >= mutants.GOAL
    assert mutants.problems(RECORD) == []
