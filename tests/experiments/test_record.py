"""What is kept of a run: files that are whole, and a summary that follows its definition."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from adiw.experiments import record
from adiw.experiments.record import Folder, provenance, summarise
from adiw.experiments.run import run
from adiw.experiments.sealed import DamagedError, line, read_lines
from adiw.experiments.settings import resolve


def rows(count: int) -> list[dict[str, float]]:
    return [{"accuracy": float(k), "top5": 50.0 + k} for k in range(count)]


def test_accuracy_is_the_mean_of_the_last_ten_epochs() -> None:
    summary = summarise(rows(25), [{"train_seconds": seconds} for seconds in (9.0, 1.0, 2.0, 30.0)])
    assert summary["accuracy"] == statistics.fmean(range(15, 25)) == 19.5
    assert summary["accuracy_std"] == pytest.approx(np.std(range(15, 25)))
    assert summary["top5"] == 69.5
    assert summary["epochs"] == 25
    assert summary["seconds_per_epoch"] == 2.0  # the median; the first epoch warms up and does not count


def test_a_short_run_takes_all_its_epochs() -> None:
    assert summarise(rows(3), [{"train_seconds": 4.0}])["accuracy"] == 1.0
    assert summarise(rows(3), [{"train_seconds": 4.0}])["seconds_per_epoch"] == 4.0
    assert summarise([], [])["accuracy"] is None


def test_rows_are_lines_of_strict_json(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write_rows("metrics.jsonl", [{"epoch": 1, "loss": 0.1}])
    folder.append_row("metrics.jsonl", {"epoch": 2, "loss": math.nan, "weight_max": math.inf})
    first, second = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert json.loads(first).keys() == {"epoch", "loss", "crc32"}
    assert json.loads(second, parse_constant=pytest.fail)["weight_max"] is None
    assert read_lines(tmp_path / "metrics.jsonl") == [
        {"epoch": 1, "loss": 0.1},
        {"epoch": 2, "loss": None, "weight_max": None},
    ]


@pytest.mark.parametrize("rest", ["", '{"epoch": 2', '{"epoch": 2}'])
def test_a_line_that_was_cut_short_is_taken_out(tmp_path: Path, rest: str) -> None:
    for before in ("", '{"epoch": 1}\n'):
        (tmp_path / "metrics.jsonl").write_text(before + rest)
        Folder(tmp_path).append_row("metrics.jsonl", {"epoch": 3})
        assert (tmp_path / "metrics.jsonl").read_text() == before + line({"epoch": 3})


def test_json_and_arrays_come_back(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    assert folder.read_json("a.json") is None
    folder.write_json("a.json", {"x": [1, None]})
    assert folder.read_json("a.json") == {"x": [1, None]}
    folder.write_array("w.npy", np.arange(3))
    assert np.load(tmp_path / "w.npy").tolist() == [0, 1, 2]
    folder.remove("a.json")
    folder.remove("a.json")
    assert [file.name for file in tmp_path.iterdir()] == ["w.npy"]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"lr": ')
    with pytest.raises(DamagedError, match=r"config\.json is damaged"):
        Folder(tmp_path).read_json("config.json")


def test_a_folder_is_made_and_one_that_cannot_be_is_named(tmp_path: Path) -> None:
    Folder(tmp_path / "a" / "b").create()
    assert list((tmp_path / "a" / "b").iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match=r"cannot write to the folder .*file/run \(Not a directory\)"):
        Folder(tmp_path / "file" / "run").create()


@pytest.fixture(autouse=True)
def forgotten_commit() -> Iterator[None]:
    """Each test looks the commit up anew, and leaves nothing to the next."""
    record.commit.cache_clear()
    yield
    record.commit.cache_clear()


def test_the_commit_is_that_of_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A commit that is made while a run trains is not the one that it is made with."""
    monkeypatch.setenv("ADIW_COMMIT", "first")

    def commit_something(_row: object) -> None:
        monkeypatch.setenv("ADIW_COMMIT", "second")

    result = run(resolve({"dataset": "digits", "epochs": 1}), tmp_path, progress=commit_something)
    assert result["commit"] == "first"


def test_the_facts_behind_a_figure() -> None:
    facts = provenance(torch.device("cpu"))
    assert facts["versions"]["torch"] == torch.__version__
    assert set(facts["versions"]) == {"adiw", "torch", "numpy", "python"}
    assert facts["hardware"]["cpus"] > 0
    json.dumps(facts, allow_nan=False)


def test_a_repository_around_an_installed_package_is_not_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "project" / "venv" / "lib" / "site-packages" / "adiw" / "experiments" / "record.py"
    (tmp_path / "project" / ".git").mkdir(parents=True)
    monkeypatch.setattr(record, "__file__", str(installed))
    assert provenance(torch.device("cpu"))["commit"] is None


def test_a_tree_that_travels_without_its_history_may_be_told_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADIW_COMMIT", "abc123")
    assert provenance(torch.device("cpu"))["commit"] == "abc123"


def test_without_git_there_is_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ADIW_COMMIT", raising=False)
    monkeypatch.setenv("PATH", "")
    assert provenance(torch.device("cpu"))["commit"] is None
