"""Runs that several tests read, trained once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from adiw.experiments.run import run
from adiw.experiments.settings import Settings, resolve
from adiw.experiments.training_run import Engine

EPOCHS = 4


def short(method: str) -> Settings:
    """A run of ``EPOCHS`` epochs on digits; the last two of fine-tune are fine-tuning."""
    length = {"epochs": 2, "fine_tune_epochs": EPOCHS - 2} if method == "fine-tune" else {"epochs": EPOCHS}
    return resolve({"method": method, **length})


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small networks are fastest on one thread, and the last bits of a sum depend on the number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of an uninterrupted run of a method on digits, seed 0."""
    folders: dict[str, Path] = {}

    def folder(method: str) -> Path:
        if method not in folders:
            folders[method] = tmp_path_factory.mktemp("finished") / method
            run(short(method), folders[method], engine=Engine(torch.device("cpu")))
        return folders[method]

    return folder
