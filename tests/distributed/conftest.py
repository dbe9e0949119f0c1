"""Processes that several modules of tests share: starting them takes the most time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.distributed.split_work import resumed, split_work
from tests.distributed.test_process_group import work
from tests.gloo_processes import in_processes


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where two processes write their distributed checkpoints."""
    return tmp_path_factory.mktemp("split")


def both(rank: int, size: int, folder: Path, state: Any = None) -> dict[str, Any]:
    return {**work(rank, size, state), "split": split_work(rank, size, folder)}


@pytest.fixture(scope="session")
def two(folder: Path) -> list[dict[str, Any]]:
    return in_processes(2, both, folder)


@pytest.fixture(scope="session")
def four(two: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    return in_processes(4, both, folder, two[0]["half"]["state"])


@pytest.fixture(scope="session")
def three(two: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    return in_processes(3, resumed, folder)


@pytest.fixture(params=["two", "four"])
def several(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = request.getfixturevalue(request.param)
    return found
