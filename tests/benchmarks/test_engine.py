"""The benchmark of the command's engine: its candidates change the time and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import engine
import tables
from engine import BASE, DEFAULT, KL


def test_rows_of_all_methods(tmp_path: Path) -> None:
    sizes = ["--images", "64", "--batch", "8", "--rounds", "1", "--times", "4", "--workloads", "fashion-mnist"]
    chosen = ["--candidates", "captured", "--profile", "captured"]
    engine.main(["--device", "cpu", *sizes, *chosen, "--out", str(tmp_path)])
    content = json.loads((tmp_path / "engine-cpu.json").read_text())
    uniform, *weighted = content["rows"]
    assert [row["method"] for row in content["rows"]] == [BASE, KL, DEFAULT]
    assert uniform["ratio"] == 1
    assert uniform["seconds_per_epoch"] > 0
    assert uniform["kernels"]
    assert not any(row["kernels"] for row in weighted)
    assert "| fashion-mnist, captured |" in tables.engine(content)


def test_a_padded_stem_computes_the_same() -> None:
    torch.manual_seed(0)
    stem = nn.Conv2d(3, 6, 3, padding=1, bias=False)
    x = torch.randn(2, 3, 5, 5, requires_grad=True)
    expected = stem(x)
    grad = torch.autograd.grad(expected.square().sum(), stem.weight)[0]
    job: Any = SimpleNamespace(model=SimpleNamespace(network=SimpleNamespace(conv1=stem)))
    engine.padded_stem(job)
    found = stem(x)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.autograd.grad(found.square().sum(), stem.weight)[0], grad)
    job.model.network.conv1 = nn.Conv2d(1, 6, 3)
    with pytest.raises(ValueError, match="three channels"):
        engine.padded_stem(job)


def test_a_candidate_that_fails_has_its_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(job: Any) -> None:
        raise RuntimeError("not on this device")

    monkeypatch.setitem(engine.CANDIDATES, "broken", engine.Candidate("captured", fails, (BASE,), engine.BOTH))
    sizes = ["--images", "64", "--batch", "8", "--rounds", "1", "--times", "4", "--workloads", "fashion-mnist"]
    engine.main(["--device", "cpu", *sizes, "--candidates", "broken", "--out", str(tmp_path)])
    content = json.loads((tmp_path / "engine-cpu.json").read_text())
    assert [row["error"] for row in content["rows"]] == ["RuntimeError: not on this device"]
    assert "RuntimeError: not on this device" in tables.engine(content)
