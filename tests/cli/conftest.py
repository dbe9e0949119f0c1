"""Run the command inside this process: its output and exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from adiw.cli import main


@dataclass(frozen=True)
class Output:
    """An ended command: its exit code, standard output and standard error."""

    code: int
    out: str
    err: str


Command = Callable[..., Output]


@pytest.fixture
def adiw(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command ``adiw`` with these arguments."""

    def call(*arguments: object) -> Output:
        monkeypatch.setattr(sys, "argv", ["adiw", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        assert isinstance(code, int)
        return Output(code, *capsys.readouterr())

    return call


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty current folder, no data sets, one thread."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ADIW_DATA", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def fashion_root() -> Path:
    """The folder that holds the real Fashion-MNIST."""
    root = os.environ.get("ADIW_DATA")
    if not root or not (Path(root) / "fashion-mnist").is_dir():
        pytest.skip("ADIW_DATA names no folder with fashion-mnist in it")
    return Path(root)
