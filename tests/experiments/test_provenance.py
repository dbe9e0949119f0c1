"""Versions, hardware and commit of a record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from adiw.experiments import provenance
from adiw.experiments.run import run
from adiw.experiments.settings import resolve


@pytest.fixture(autouse=True)
def no_cached_commit() -> Iterator[None]:
    """Clear the cached commit before and after each test."""
    provenance.commit.cache_clear()
    yield
    provenance.commit.cache_clear()


def test_the_commit_is_that_of_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A commit that is made during a run is not recorded."""
    monkeypatch.setenv("ADIW_COMMIT", "first")

    def commit_something(_row: object) -> None:
        monkeypatch.setenv("ADIW_COMMIT", "second")

    result = run(resolve({"dataset": "digits", "epochs": 1}), tmp_path, progress=commit_something)
    assert result["commit"] == "first"


def test_a_record_has_versions_hardware_and_commit() -> None:
    facts = provenance.provenance(torch.device("cpu"))
    assert facts["versions"]["torch"] == torch.__version__
    assert set(facts["versions"]) == {"adiw", "torch", "numpy", "python"}
    assert facts["hardware"]["cpus"] > 0
    json.dumps(facts, allow_nan=False)


def test_a_repository_around_an_installed_package_is_not_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "project" / "venv" / "lib" / "site-packages" / "adiw" / "experiments" / "provenance.py"
    (tmp_path / "project" / ".git").mkdir(parents=True)
    monkeypatch.setattr(provenance, "__file__", str(installed))
    assert provenance.provenance(torch.device("cpu"))["commit"] is None


def test_an_environment_variable_names_the_commit_of_a_copied_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADIW_COMMIT", "abc123")
    assert provenance.provenance(torch.device("cpu"))["commit"] == "abc123"


def test_without_git_there_is_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ADIW_COMMIT", raising=False)
    monkeypatch.setenv("PATH", "")
    assert provenance.provenance(torch.device("cpu"))["commit"] is None
