"""The benchmark of many runs on one device: the throughput of each way, and generated data where there is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import adiw.data
import many_runs
import tables


@pytest.fixture(autouse=True)
def _real_data_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adiw.data, "DATASETS", dict(adiw.data.DATASETS))


def test_rows_of_the_ways(tmp_path: Path) -> None:
    sizes = ["--runs", "3", "--epochs", "2", "--images", "64"]
    many_runs.main(["--device", "cpu", "--ways", "alone", "2 processes", *sizes, "--out", str(tmp_path)])
    content = json.loads((tmp_path / "many-runs-cpu.json").read_text())
    assert [(row["way"], row["runs"]) for row in content["rows"]] == [("alone", 1), ("2 processes", 3)]
    assert all(row["seconds_per_100_epochs"] > 0 for row in content["rows"])
    assert all(row["data"] == "generated" for row in content["rows"])
    assert "| 2 processes | 3 | 2 |" in tables.many_runs(content)


def test_a_failed_run_and_spent_time_are_errors(tmp_path: Path) -> None:
    arguments = ["--device", "cpu", "--runs", "1", "--epochs", "2", "--images", "8", "--out", str(tmp_path)]
    many_runs.main([*arguments, "--ways", "alone"])
    many_runs.main([*arguments, "--ways", "2 processes", "--budget", "-1", "--out", str(tmp_path / "late")])
    failed, late = (
        json.loads((folder / "many-runs-cpu.json").read_text())["rows"][0]["error"]
        for folder in (tmp_path, tmp_path / "late")
    )
    assert failed.startswith("RuntimeError: ")
    assert late == "there was no time left"


def test_workers_generate_the_data_too() -> None:
    assert len(many_runs.with_generated((64, 32), adiw.data.load, "fashion-mnist").test) == 32
