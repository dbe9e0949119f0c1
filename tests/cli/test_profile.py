"""``adiw profile``: the table, the file, and mistakes told in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adiw.engine.stages import STAGES
from tests.cli.conftest import Command

QUICK = ("--skip", 1, "--stabilise", 1, "--record", 1, "--workers", 0, "--device", "cpu")


def test_it_prints_the_table_and_writes_the_file(adiw: Command) -> None:
    said = adiw("profile", *QUICK)
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0].startswith("Stages of a step on digits, mlp, symmetric:0.4")
    assert lines[2].split() == ["DIW", "DIW_Val", "ADIW_CPU", "ADIW_GPU"]
    assert [line.split("  ")[0] for line in lines[5:16]] == [*STAGES, "total"]
    assert all(line.split().count("-") == 4 for line in lines[5:16])  # no device time
    assert said.out.endswith("figures are in runs/profile-digits/profile.json\n")
    assert len(json.loads(Path("runs/profile-digits/profile.json").read_text())["implementations"]) == 4


def test_json_is_the_file_and_options_arrive(adiw: Command) -> None:
    one = ("--implementation", "ADIW_GPU", "--method", "adiw-ls", "--width", 0.3, "--batch", 64, "--val-batch", 50)
    epochs = ("--profiled-epochs", "2,1", "--iterations", 3, "--seed", 7, "--shift", "pair:0.2", "--out", "there")
    said = adiw("profile", *QUICK, *one, *epochs, "--json")
    assert said.code == 0
    content = json.loads(said.out)
    assert content == json.loads(Path("there/profile.json").read_text())
    assert (content["plan"]["epochs"], content["plan"]["iterations"]) == ([2, 1], 3)
    (entry,) = content["implementations"].values()
    expected = {"method": "adiw-ls", "width": 0.3, "batch": 64, "val_batch": 50, "seed": 7, "shift": "pair:0.2"}
    assert expected.items() <= entry["settings"].items()


def test_a_second_call_adds_what_is_missing(adiw: Command) -> None:
    adiw("profile", *QUICK, "--implementation", "DIW_Val")
    before = json.loads(Path("runs/profile-digits/profile.json").read_text())["implementations"]
    said = adiw("profile", *QUICK, "--implementation", "ADIW_CPU", "--implementation", "DIW_Val", "--json")
    after = json.loads(said.out)["implementations"]
    assert list(after) == ["DIW_Val", "ADIW_CPU"]
    assert after["DIW_Val"] == before["DIW_Val"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--implementation", "ADIW"], "unknown implementation 'ADIW': expected one of "),
        (["--profiled-epochs", "1,two"], "numbers with commas between, such as 1,5,10, got '1,two'"),
        (["--profiled-epochs", "0"], "from 1 on, got 0"),
        (["--method", "uniform"], "ADIW_CPU needs the method one of the ADIW methods, such as adiw-km, got uniform"),
        (["--skip", "100"], "but an epoch has 10: take smaller batches"),
        (["--record", "0"], "record must be at least 1"),
        (["--workers", "-1"], "workers must be at least 0"),
        (["--dataset", "mnist"], "unknown dataset 'mnist': expected one of "),
        (["--dataset", "imagefolder", "--trusted", "3"], "imagefolder needs a path"),
        (["--width", "wide"], "width must be a number"),
        (["--device", "tpu"], "unknown device 'tpu'"),
    ],
)
def test_mistakes_are_told_in_one_line(adiw: Command, arguments: list[str], message: str) -> None:
    said = adiw("profile", *QUICK, *arguments)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("adiw: ")
    assert said.err.count("\n") == 1
    assert message in said.err


def test_a_folder_with_another_profile_is_refused(adiw: Command) -> None:
    one = (*QUICK, "--implementation", "ADIW_GPU")
    adiw("profile", *one)
    said = adiw("profile", *one, "--batch", 64)
    assert said.code == 2
    assert "batch of ADIW_GPU was 128, is 64): choose another folder, or delete the file" in said.err
