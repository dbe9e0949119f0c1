"""The benchmark of the command's engine: its candidates change the time and nothing else."""

from __future__ import annotations

import copy
import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import convolutions
import engine
import engine_accuracy
import engine_changes
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


CONVOLUTION = partial(nn.Conv2d, 3, 6, 3, padding=1, bias=False)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (CONVOLUTION, engine_changes.PaddedStem),
        (CONVOLUTION, engine_changes.UnfoldedStem),
        (partial(nn.Conv2d, 3, 6, 1, stride=2, bias=False), engine_changes.ShortcutProduct),
        (partial(nn.BatchNorm2d, 3), engine_changes.SummedBatchNorm),
    ],
)
def test_another_way_to_compute_a_layer(make: Any, kind: Any) -> None:
    torch.manual_seed(0)
    layer = make().double()
    other = copy.deepcopy(layer)
    other.__class__ = kind
    x = 3 + torch.randn(4, 3, 5, 7, dtype=torch.double)
    for mode in (True, True, False):
        inputs = [x.clone().requires_grad_() for _ in range(2)]
        outputs = [module.train(mode)(value) for module, value in zip((layer, other), inputs, strict=True)]
        for module, output in zip((layer, other), outputs, strict=True):
            module.zero_grad()
            (output**3).sum().backward()
        torch.testing.assert_close(*outputs)
        torch.testing.assert_close(inputs[0].grad, inputs[1].grad)
        for mine, theirs in zip(layer.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(mine.grad, theirs.grad)
        torch.testing.assert_close(layer.state_dict(), other.state_dict())


def test_a_network_without_a_stem_of_three_channels_is_refused() -> None:
    job: Any = SimpleNamespace(model=SimpleNamespace(network=SimpleNamespace(conv1=nn.Conv2d(1, 6, 3))))
    with pytest.raises(ValueError, match="three channels"):
        engine_changes.stem(engine_changes.PaddedStem)(job)


def test_a_wrong_gradient_is_seen() -> None:
    exact = engine.Gradients({"w": torch.tensor([3.0, 4.0])}, {"mean": torch.ones(2)})
    found = engine.Gradients({"w": torch.tensor([3.0, 4.5])}, {"mean": torch.ones(2)}).errors(exact)
    assert found == {"gradient_error": pytest.approx(0.1), "buffer_error": 0}


def test_each_convolution_is_timed(tmp_path: Path) -> None:
    convolutions.main(["--device", "cpu", "--batch", "1", "--times", "1", "--plans", "0", "--out", str(tmp_path)])
    rows = json.loads((tmp_path / "convolutions-cpu.json").read_text())["rows"]
    assert sum(row["count"] for row in rows) == 21  # 20 of the network, and the padded stem
    assert all(min(row["us"].values()) > 0 for row in rows)


def test_a_candidate_that_fails_has_its_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(job: Any) -> None:
        raise RuntimeError("not on this device")

    monkeypatch.setitem(engine.CANDIDATES, "broken", engine.Candidate("captured", fails, (BASE,), engine.BOTH))
    sizes = ["--images", "64", "--batch", "8", "--rounds", "1", "--times", "4", "--workloads", "fashion-mnist"]
    engine.main(["--device", "cpu", *sizes, "--candidates", "broken", "--out", str(tmp_path)])
    content = json.loads((tmp_path / "engine-cpu.json").read_text())
    assert [row["error"] for row in content["rows"]] == ["RuntimeError: not on this device"]
    assert "RuntimeError: not on this device" in tables.engine(content)


def test_the_accuracy_of_a_candidate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(job: Any) -> None:
        raise RuntimeError("not on this device")

    monkeypatch.setitem(engine.CANDIDATES, "broken", engine.Candidate("captured", fails))
    smaller = ["--set", "dataset=digits", "--epochs", "3", "--seeds", "1", "--device", "cpu", "--out", str(tmp_path)]
    engine_accuracy.main([*smaller, "--candidates", "captured", "broken"])
    trained, broken = json.loads((tmp_path / "engine-accuracy-cpu.json").read_text())["rows"]
    assert 50 < trained["accuracy"] <= 100
    assert trained["seconds_per_epoch"] > 0
    assert broken["error"] == "RuntimeError: not on this device"
