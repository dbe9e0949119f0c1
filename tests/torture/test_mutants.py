"""The tests notice a few chosen mutants, and every survivor of the long run has a reason that is still current."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from torture import mutants
from torture.mutation.core import CORE
from torture.mutation.sample import SAMPLE, Slip

ROOT = Path(__file__).parents[2]
RECORD = json.loads(mutants.RECORD.read_text())
REASONS = tomllib.loads(mutants.REASONS.read_text())["survivor"]


def test_chosen_mutants_are_noticed_and_the_code_as_it_is_passes() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "torture.mutation.try_sample"], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    outcomes = [(verdict["mutated"], verdict["outcome"]) for verdict in json.loads(done.stdout)]
    assert sorted(outcomes) == [(False, "survived")] * 2 + [(True, "killed")] * len(SAMPLE)


def test_a_mutant_is_one_place_of_the_code() -> None:
    with pytest.raises(ValueError, match=r"adiw/store\.py has 'no such line' 0 times, expected once"):
        Slip("adiw/store.py", "no such line", "", "tests/test_store.py").trial()


def test_the_record_is_of_the_whole_core_and_reaches_the_goal() -> None:
    assert RECORD["modules"].keys() == CORE.keys()
    for kept in (RECORD, *RECORD["modules"].values()):
        assert kept["killed"] + kept["survived"] == kept["mutants"]
        assert kept["score"] == pytest.approx(100 * kept["killed"] / kept["mutants"], abs=0.01)
    assert RECORD["mutants"] == sum(module["mutants"] for module in RECORD["modules"].values())
    assert RECORD["score"] >= mutants.GOAL


def test_every_survivor_has_its_reason_and_every_reason_its_survivor() -> None:
    recorded = {
        (module, one["where"], one["was"], one["now"]): one["why"]
        for module, kept in RECORD["modules"].items()
        for one in kept["survivors"]
    }
    assert recorded == mutants.read_reasons()
    assert all(len(why) > 10 for why in recorded.values())


@pytest.mark.parametrize("module", CORE)
def test_reasons_are_about_lines_that_are_still_there(module: str) -> None:
    """A changed line makes its reason void: look at it again, or run ``python -m torture.mutants --module``."""
    lines = " ".join(line.strip() for line in (ROOT / "src" / module).read_text().splitlines())
    for reason in REASONS:
        if reason["module"] == module:
            assert reason["was"] in lines, reason
