"""The code of docs/sweeps.md, with executors in this process in place of SLURM and dask."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from blocks import read, run

PAGE = Path(__file__).parents[2] / "docs" / "sweeps.md"


class Job:
    """The methods of submitit's Job and dask's Future that a sweep uses."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.value = function(*arguments)

    def done(self) -> bool:
        return True

    def result(self) -> Any:
        return self.value


class AutoExecutor:
    """submitit's executor: its jobs have no ``cancelled``, ``running`` or callbacks of ``concurrent.futures``."""

    def __init__(self, folder: str) -> None:
        self.given: dict[str, Any] = {}

    def update_parameters(self, **given: Any) -> None:
        self.given |= given

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Job:
        return Job(function, *arguments)


class Client(AutoExecutor):
    """dask's client."""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def module(name: str, **contents: Any) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(contents)
    return made


def test_the_recipe_of_the_page_runs_on_the_executors_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "submitit", module("submitit", AutoExecutor=AutoExecutor))
    monkeypatch.setitem(sys.modules, "dask", module("dask"))
    monkeypatch.setitem(sys.modules, "dask.distributed", module("dask.distributed", Client=Client))
    blocks = read(PAGE.read_text(encoding="utf-8"))
    (recipe,) = [block.text for block in blocks if block.language == "toml"]
    Path("mine.toml").write_text(recipe.replace("epochs = 30", "epochs = 2").replace("trials = 3", "trials = 1"))
    slurm, dask = (names for names, _ in run(blocks, str(PAGE)))
    assert [record["status"] for record in slurm["records"]] == ["done"] * 4
    assert slurm["records"] == dask["records"]  # the second call finds everything done
    assert slurm["executor"].given["gpus_per_node"] == 1
