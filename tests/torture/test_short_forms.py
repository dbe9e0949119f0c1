"""A short form of each long check, and cases in which each fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random

import pytest
import torch

from adiw.experiments import checked_io
from draw_tables import draw
from torture import __main__ as all_checks
from torture import bit_flips, compare, covered, entries, inputs, kills, stops, verdict
from torture import commit as commits
from torture.command_inputs import ended_well, run_inside
from torture.record import Record

ROOT = Path(__file__).parents[2]


def test_every_module_with_a_main_is_a_check() -> None:
    records = {file.stem for file in (ROOT / "results" / "torture").glob("*.json")}
    assert set(all_checks.checks()) == records - {"coverage"}  # which `make coverage` writes


def test_a_record_has_the_counts_and_the_failures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = Record("some", "things are tried", seed=3).write({"things": 5, "lost": 1}, ["one was lost"], tmp_path)
    content = json.loads(file.read_text())
    assert content["counts"] == {"things": 5, "lost": 1}
    assert {"settings", "seconds", "versions", "hardware", "commit", "wrong"} <= content.keys()
    assert capsys.readouterr().out == "some: 5 things, 1 lost\n  one was lost\n"


def test_the_page_has_the_tables_of_the_records() -> None:
    page = ROOT / "docs" / "reliability.md"
    assert draw(page.read_text(), page.parent) == page.read_text()
    for file in (ROOT / "results" / "torture").glob("*.json"):
        assert json.loads(file.read_text())["wrong"] == [], file.name


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
def test_killed_and_resumed_runs_have_the_same_result(tmp_path: Path) -> None:
    code = "import sys; from torture.kills import main; sys.exit(main(('adiw-wa', 'val-only')))"
    alone = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    given = [sys.executable, "-c", code, "--count", "6", "--out", str(tmp_path)]
    ended = subprocess.run(given, cwd=ROOT, env=alone, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    counts = json.loads((tmp_path / "kills.json").read_text())["counts"]
    assert (counts["kills"], counts["lost"], counts["different"]) == (6, 0, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
def test_stopped_and_resumed_runs_have_the_same_result(tmp_path: Path) -> None:
    code = "import sys; from torture.stops import main; sys.exit(main(('digits',)))"
    alone = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    given = [sys.executable, "-c", code, "--count", "6", "--out", str(tmp_path)]
    ended = subprocess.run(given, cwd=ROOT, env=alone, capture_output=True, text=True)
    counts = json.loads((tmp_path / "stops.json").read_text())["counts"]
    assert (counts["stops"], counts["lost"], counts["different"]) == (3, 0, 0), ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("code", "seconds", "output", "wrong"),
    [
        (0, 0.0, "", False),
        (130, 4.9, "adiw: stopped", False),
        (-10, 0.1, "", False),  # SIGUSR1, before the command handles it
        (130, 5.1, "adiw: stopped", False),  # slow
        (130, 0.1, "Traceback", True),
        (1, 0.1, "", True),
        (None, 300.0, "", True),
    ],
)
def test_how_a_stopped_command_must_end(
    tmp_path: Path, code: int | None, seconds: float, output: str, wrong: bool
) -> None:
    tally = stops.Tally()
    stops.count(tally, "some", code, seconds, tmp_path, output)
    assert bool(tally.wrong) == wrong
    assert bool(tally.slow) == (seconds == 5.1)


@pytest.mark.parametrize(
    ("kind", "code", "output", "wrong"),
    [
        ("moment", None, "", False),
        ("moment", 1, "", True),
        ("terminate", 130, "continue with --resume", False),
        ("terminate", 130, "", True),
        ("stopping", None, "", False),
        ("stopping", 130, "the same command starts it again", False),
        ("full disk", 2, "No space left: continue with --resume", False),
        ("full disk", 2, "File too large", True),
    ],
)
def test_how_a_run_must_end(kind: str, code: int | None, output: str, wrong: bool) -> None:
    assert bool(kills.judge(kind, code, output)) == wrong


def test_states_are_compared_bit_for_bit() -> None:
    a, b = ({"model": [torch.tensor([0.0, 1.0])], "epoch": 1} for _ in range(2))
    assert compare.unequal(a, b) == []
    b["model"][0][0] = -0.0
    assert compare.unequal(a, b) == ["/model/0"]
    assert compare.unequal({"a": 1}, {"a": 1, "b": 2}) == [""]


def test_flips_and_cuts_are_detected_or_harmless() -> None:
    counts, wrong = bit_flips.check(count=90, seed=1)
    assert wrong == []
    assert counts["detected"] > 60
    assert counts["unnoticed in a growing log"] + counts["last lines missing"] < 10  # few of the files grow


def test_flips_without_digests_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_io, "recorded_digest", lambda file: None)
    _, wrong = bit_flips.check(count=90, seed=1)
    assert any("other content was read without an error" in line for line in wrong)


def test_bad_arguments_are_refused_or_have_a_result(tmp_path: Path) -> None:
    counts, wrong = Counter[str](), list[str]()
    inputs.check_names(150, Random(2), tmp_path, counts, wrong)
    assert wrong == []
    assert min(counts["clear error"], counts["defined result"]) > 10


def test_every_call_works_before_an_argument_is_replaced(tmp_path: Path) -> None:
    """Otherwise its errors would have another cause."""
    table = entries.entries(tmp_path)
    assert {"ADIW", "Lightning's callback", "the Trainer's mixin", "a loop of accelerate"} <= {e.name for e in table}
    for entry in table:
        found = verdict.verdict(partial(entry.call, **entry.good()), entry.defined)
        assert found == ("defined result", ""), entry.name


def test_bad_commands_end_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for given in (["run", "--lr", "nan"], ["report", "nowhere"], ["audit", str(tmp_path)], ["sweep", "abc"], ["-x"]):
        assert run_inside(given) is None, given


def test_errors_that_are_not_raised_on_purpose_are_found() -> None:
    assert verdict.verdict(lambda: torch.ones(2) + torch.ones(3), verdict.finite)[0] == "wrong"
    assert verdict.verdict(lambda: torch.tensor(float("nan")), verdict.finite)[0] == "wrong"
    assert verdict.verdict(lambda: checked_io.read_json(ROOT / "README.md"), verdict.anything)[0] == "clear error"
    assert ended_well(1, "", "Traceback (most recent call last)") is not None
    assert ended_well(2, "", "") is not None
    assert ended_well(2, "", "adiw: lr must be a positive number, got nan") is None


def test_coverage_of_lines_and_branches_fails_below_the_goal() -> None:
    totals = {"covered_lines": 97, "num_statements": 100, "covered_branches": 94, "num_branches": 100}
    lacking = {"missing_lines": [3], "missing_branches": [[2, 3]]}
    whole = {"missing_lines": [], "missing_branches": []}
    report = {"meta": {"version": "7"}, "totals": totals, "files": {"src/a.py": whole, "src/b.py": lacking}}
    record = covered.summary(report)
    assert record["wrong"] == ["the goal is 95.0% of both"]
    assert record["lacking"] == {"src/b.py": {"lines": [3], "branches": [[2, 3]]}}
    assert covered.summary({**report, "totals": {**totals, "covered_branches": 96}})["wrong"] == []


def test_writing_records_does_not_make_the_tree_dirty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*command: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *who, *command], cwd=tmp_path, check=True, capture_output=True)

    def now() -> str:
        return commits.commit.__wrapped__()

    monkeypatch.delenv("ADIW_COMMIT", raising=False)
    monkeypatch.setattr(commits, "ROOT", tmp_path)
    kept, code = tmp_path / "results" / "torture" / "kills.json", tmp_path / "code.py"
    kept.parent.mkdir(parents=True)
    for file in (kept, code):
        file.write_text("1")
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "one")
    kept.write_text("2")
    clean = now()
    code.write_text("2")
    assert len(clean) == 12
    assert now() == f"{clean}-dirty"
