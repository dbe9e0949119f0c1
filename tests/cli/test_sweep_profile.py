"""``adiw sweep`` on a recipe that profiles: the stage tables with the paper's figures beside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adiw.cli.sweep import shortened
from adiw.engine.stages import STAGES
from adiw.experiments.profile_plan import Plan
from adiw.experiments.recipes import load
from tests.cli.conftest import Command

FIGURES = ", ".join(['"1.00 (10.00)"'] * 11)
TEXT = f"""
title = "Where the time goes"
about = "A short profile."
kind = "profile"
epochs_profiled = [1, 2, 5]
stages = {json.dumps([*STAGES, "total"])}
[settings]
dataset = "digits"
batch = 32
exact = true
[[column]]
label = "much"
shift = "symmetric:0.4"
[[row]]
label = "DIW"
method = "diw"
solver = "gpu"
[[row]]
label = "ADIW_GPU"
method = "adiw-km"
[paper.cpu]
DIW = [{FIGURES}]
ADIW_GPU = [{FIGURES}]
"""
QUICK = ("--device", "cpu", "--workers", 0)


@pytest.fixture(autouse=True)
def recipe(own_folder: None) -> None:
    Path("stages.toml").write_text(TEXT)


def test_the_stages_stand_beside_the_papers(adiw: Command) -> None:
    said = adiw("sweep", "stages.toml", *QUICK, "--method", "ADIW_GPU", "--epochs", 1, "--iterations", 22)
    assert said.code == 0
    cpu, device = said.out.split("\nWhere the time goes: device time")
    assert cpu.startswith("Where the time goes: CPU time (seconds; percent in brackets)\n")
    lines = cpu.splitlines()
    assert lines[2].split() == ["DIW", "ADIW_GPU"]
    assert lines[5].split()[:5] == ["fetch", "train", "missing", "1.00", "(10.00)"]  # DIW was not asked for
    assert "No GPU was used" in device
    assert said.out.endswith("files are in runs/stages\n")
    content = json.loads(Path("runs/stages/profile.json").read_text())
    assert list(content["implementations"]) == ["ADIW_GPU"]
    assert (content["plan"]["epochs"], content["plan"]["iterations"]) == ([1], 22)
    assert json.loads(Path("runs/stages/recipe.json").read_text())["kind"] == "profile"
    names = {file.name for file in Path("runs/stages/tables").iterdir()}
    assert names == {f"{name}.{ending}" for name in ("cpu", "device") for ending in ("txt", "md", "tex", "csv")}

    more = adiw("sweep", "stages.toml", *QUICK, "--epochs", 1, "--iterations", 22)
    assert more.code == 0
    after = json.loads(Path("runs/stages/profile.json").read_text())["implementations"]
    assert list(after) == ["ADIW_GPU", "DIW"]
    assert after["ADIW_GPU"] == content["implementations"]["ADIW_GPU"]
    again = adiw("sweep", "stages.toml", "--tables-only")
    assert (again.code, again.out, again.err) == (0, more.out, "")


def test_epochs_is_the_last_one_that_is_profiled() -> None:
    recipe = load("profile-cifar10")
    assert shortened(recipe, None, None) == Plan((20, 105, 205, 305, 390))
    assert shortened(recipe, 205, 30) == Plan((20, 105, 205), iterations=30)
    assert shortened(recipe, 7, None) == Plan((7,))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "ADIW_CPU"], "unknown method 'ADIW_CPU': expected one of ADIW_GPU, DIW"),
        (["--epochs", 0], "from 1 on, got 0"),
        (["--iterations", 5], "but an epoch has 5: take smaller batches"),
        (["--tables-only"], "no profile found in runs/stages: it holds no profile.json"),
    ],
)
def test_mistakes_are_told_in_one_line(adiw: Command, arguments: list[object], message: str) -> None:
    said = adiw("sweep", "stages.toml", *QUICK, *arguments)
    assert (said.code, said.out) == (2, "")
    assert said.err.count("\n") == 1
    assert message in said.err


def test_one_column_at_a_time(adiw: Command) -> None:
    Path("stages.toml").write_text(TEXT.replace("[[row]]", '[[column]]\nlabel = "none"\nshift = "none"\n[[row]]', 1))
    said = adiw("sweep", "stages.toml", *QUICK)
    assert (said.code, said.err) == (
        2,
        "adiw: a profile has one column: choose one with --shift, stages has several\n",
    )
