"""A divergence in a user's file, from the command: run, sweep and report."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from adiw.divergences import DIVERGENCES
from tests.cli.conftest import Command
from tests.experiments.small_sweeps import write_recipe

FILE = """
from dataclasses import dataclass
import adiw
from adiw.divergences import KL

@adiw.register("theirs")
@dataclass(frozen=True)
class Theirs(KL):
    '''A divergence of somebody else.'''
    width: float = 0.3

@dataclass(frozen=True)
class OfLosses(KL):
    z = ("loss",)
"""
RUN = ("run", "--epochs", 2, "--quiet")


@pytest.fixture(autouse=True)
def user_file(own_folder: None) -> Iterator[None]:
    Path("their_file.py").write_text(FILE)
    yield
    sys.modules.pop("their_file", None)
    DIVERGENCES.pop("theirs", None)


def test_a_name_is_its_method(adiw: Command) -> None:
    assert adiw(*RUN, "--divergence", "mmd", "--set", "step=local", "--set", "width=0.1", "--out", "a").code == 0
    assert adiw(*RUN, "--method", "adiw-km", "--step", "local", "--width", "0.1", "--out", "b").code == 0
    config = json.loads(Path("a/config.json").read_text())
    assert (config["method"], config["set"], config["width"]) == ("adiw-km", "step=local,width=0.1", None)
    assert "set" not in json.loads(Path("b/config.json").read_text())
    assert Path("a/metrics.jsonl").read_text() == Path("b/metrics.jsonl").read_text()


def test_a_class_of_a_users_file_runs_resumes_and_is_reported(adiw: Command) -> None:
    output = adiw(*RUN, "--divergence", "their_file:Theirs", "--set", "step_size=0.2", "--json")
    assert output.code == 0
    folder = Path("runs/digits-adiw-their_file.Theirs-0")
    assert json.loads(output.out)["settings"]["method"] == "adiw-their_file:Theirs"
    assert adiw("run", "--resume", "--out", folder, "--epochs", 3, "--quiet").code == 0
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 3
    assert adiw("report", folder).code == 0
    assert "adiw-their_file:Theirs" in (folder / "index.html").read_text()
    assert "theirs" in adiw("list").out  # its own name, since the file is imported now
    assert adiw(*RUN, "--method", "adiw-theirs").code == 0


def test_a_class_of_a_users_file_in_a_sweep_of_two_processes(adiw: Command) -> None:
    row = '[[row]]\nlabel = "Theirs"\nmethod = "adiw-their_file:Theirs"\nset = "step_size=0.2"\n'
    write_recipe(Path(), row)
    part = ("--method", "Theirs", "--method", "KL", "--shift", "much", "--trials", 1)
    output = adiw("sweep", "mine.toml", *part, "--processes", 2)
    assert output.code == 0, output.err
    assert "Theirs" in output.out
    assert adiw("report", "runs/mine").code == 0
    assert "Theirs" in Path("runs/mine/index.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--divergence", "klx"], "unknown divergence 'klx': expected one of 'kl'"),
        (["--divergence", "their_file.py:Theirs"], "not a file; write their_file:Theirs, in the folder of the file"),
        (["--divergence", "their_file:Other"], "expected a class in their_file, found none"),
        (["--divergence", "kl", "--method", "uniform"], "--method and --divergence both select the method"),
        (["--divergence", "kl", "--set", "widht=1"], "KL has no setting 'widht': expected width, step_size, update"),
        (["--divergence", "kl", "--set", "width=-1"], 'KL: width must be a positive number or "auto", got -1.0'),
        (["--divergence", "kl", "--set", "width=1", "--width", "2"], "width and set width=... set the same"),
        (["--method", "uniform", "--set", "width=1"], "set is for the divergence of an adiw- method"),
        (
            ["--divergence", "their_file:OfLosses", "--transform", "features"],
            "transform features: OfLosses matches loss only",
        ),
    ],
)
def test_bad_divergences(adiw: Command, arguments: list[str], message: str) -> None:
    output = adiw(*RUN, *arguments)
    assert output.code == 2
    assert message in output.err
    assert output.err.count("\n") == 1
