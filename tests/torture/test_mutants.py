"""The tests notice a few chosen mutants, and the record of the long run reaches its goal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from torture import mutants
from torture.mutation.sample import SAMPLE, Slip

ROOT = Path(__file__).parents[2]
RECORD = json.loads(mutants.RECORD.read_text())


def test_chosen_mutants_are_noticed_and_the_code_as_it_is_passes() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "torture.mutation.try_sample"], cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    outcomes = [(verdict["mutated"], verdict["outcome"]) for verdict in json.loads(done.stdout)]
    assert sorted(outcomes) == [(False, "survived")] * 2 + [(True, "killed")] * len(SAMPLE)


def test_a_mutant_is_one_place_of_the_code() -> None:
    with pytest.raises(
        ValueError, match=r"adiw/reweighting/values_by_index\.py has 'no such line' 0 times, expected once"
    ):
        Slip(
            "adiw/reweighting/values_by_index.py", "no such line", "", "tests/reweighting/test_values_by_index.py"
        ).trial()


def test_the_record_reaches_the_goal() -> None:
    for kept in (RECORD, *RECORD["modules"].values()):
        assert kept["killed"] + kept["survived"] == kept["mutants"]
        assert kept["score"] == pytest.approx(100 * kept["killed"] / kept["mutants"], abs=0.01)
    assert RECORD["mutants"] == sum(module["mutants"] for module in RECORD["modules"].values())
    assert RECORD["score"] >= mutants.GOAL
