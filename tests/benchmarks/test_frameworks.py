"""The benchmark of the loops of frameworks: a row for each loop and method, and errors that are reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

pytest.importorskip("lightning", reason="needs the extra adiw[lightning]")
pytest.importorskip("transformers", reason="needs the extra adiw[hf]")

import frameworks
import tables
from frameworks import CHOSEN, Turns
from plain_loop import BASE


def test_a_row_for_each_loop_and_method(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--samples", "1200", "--batch", "16", "--rounds", "1", "--times", "4"]
    frameworks.main(["--device", "cpu", "--networks", "mlp", *sizes, "--out", str(tmp_path)])
    content = json.loads((tmp_path / "frameworks-cpu.json").read_text())
    found = [(row["loop"], row["method"]) for row in content["rows"]]
    assert found == [(loop, method) for loop in ("plain", "Lightning", "Trainer") for method in (BASE, *CHOSEN)]
    for row in content["rows"]:
        assert row["ratio"] > 0, row
    assert len(capsys.readouterr().out.splitlines()) == len(found)
    table = tables.frameworks(content)
    assert "| mlp, kl |" in table
    assert "failed" not in table


def test_a_loop_runs_as_many_steps_as_it_is_given() -> None:
    taken: list[int] = []

    def run(turns: Turns) -> None:
        for batch in turns:
            taken.append(batch)

    turns = Turns(iter(range(1000)), None, run)
    turns(6)
    turns.end()
    assert taken == list(range(4 + 8))  # four that are not timed, and a multiple of four


def test_the_error_of_a_loop_is_reported() -> None:
    def run(turns: Turns) -> None:
        next(turns)
        raise ValueError("no such argument")

    with pytest.raises(RuntimeError, match="ValueError: no such argument"):
        Turns(iter(range(1000)), None, run)(4)
    with pytest.raises(RuntimeError, match="the loop ended by itself"):
        Turns(iter(range(1000)), None, lambda turns: None)(4)


def test_the_batches_are_on_the_device_of_the_data() -> None:
    workload = frameworks.replace(frameworks.WORKLOADS["mlp"], samples=600, batch=100)
    x, y, index = next(frameworks.batches_of(workload, workload.data(torch.device("cpu"))))
    assert x.shape[:1] == y.shape == index.shape == (100,)
