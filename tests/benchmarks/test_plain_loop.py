"""The benchmark of a user's own loop: a row for each method, with an interval of its ratio."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import plain_loop
from plain_loop import BASE, METHODS, WORKLOADS, median_interval


def test_rows_of_all_methods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--samples", "1200", "--batch", "16", "--rounds", "2", "--times", "8"]
    plain_loop.main(["--device", "cpu", "--networks", "mlp", *sizes, "--out", str(tmp_path)])
    rows = json.loads((tmp_path / "plain-loop-cpu.json").read_text())["rows"]
    assert [row["method"] for row in rows] == [BASE, *METHODS]
    for row in rows:
        low, high = row["interval"]
        assert 0 < low <= row["ratio"] <= high
        assert row["notes"] == []
    assert len(capsys.readouterr().out.splitlines()) == len(rows)


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_network_takes_its_samples(name: str) -> None:
    workload = WORKLOADS[name]
    x, y = plain_loop.replace(workload, samples=4).data(torch.device("cpu"))
    assert workload.model(workload.classes)(x).shape == (len(y), workload.classes)


def test_the_interval_of_a_median() -> None:
    assert median_interval([3.0, 1.0, 2.0]) == (1.0, 3.0)  # too few values: the whole range
    assert median_interval([float(i) for i in range(100)]) == (39.0, 60.0)  # the 40th and the 61st of 100
