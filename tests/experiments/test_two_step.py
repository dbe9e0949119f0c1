"""The features of the classic estimators: the hidden layer at norm one, and the label."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from adiw.data import ImageFiles, Samples
from adiw.engine import loop
from adiw.engine.preprocessing import NormalizedNetwork
from adiw.experiments import two_step
from adiw.experiments.dead_run import DeadRunError
from adiw.experiments.run import run
from adiw.experiments.settings import SettingsError, resolve
from adiw.experiments.splits import load_splits
from adiw.experiments.training_run import Engine, TrainingRun
from adiw.experiments.two_step import _hidden
from adiw.reports.folders import read_run
from tests.cli.images import write_images

CPU = torch.device("cpu")


class Small(nn.Sequential):
    feature_layer = "1"


def small(inputs: int) -> NormalizedNetwork:
    torch.manual_seed(0)
    return NormalizedNetwork(Small(nn.Flatten(), nn.Linear(inputs, 4), nn.Linear(4, 3)))


def test_features_are_the_hidden_layer_at_norm_one_and_the_label() -> None:
    model, samples = small(5), Samples(torch.randn(7, 5), torch.arange(7) % 3)
    seen = _hidden(model, samples, 3, CPU)
    hidden = model.network[1](samples.x).detach().double()  # type: ignore[index]
    torch.testing.assert_close(seen[:, :4], hidden / hidden.norm(dim=1, keepdim=True))
    assert torch.equal(seen[:, 4:], torch.eye(3, dtype=torch.float64)[samples.y])


def test_images_are_evaluated_without_augmentation(tmp_path: Path) -> None:
    paths = tuple(sorted((write_images(tmp_path, train=2) / "train").rglob("*.png")))
    files = ImageFiles(paths, torch.arange(6) // 2, size=16, train=True)
    model = small(3 * 16 * 16)
    assert torch.equal(_hidden(model, files, 3, CPU), _hidden(model, files, 3, CPU))


def test_a_network_with_nan_outputs_is_a_dead_run() -> None:
    with pytest.raises(DeadRunError, match=r"pretrained network is not finite: lower the learning rate"):
        _hidden(small(5), Samples(torch.full((2, 5), torch.inf), torch.tensor([0, 1])), 3, CPU)


def test_a_run_that_is_dead_before_its_first_epoch_is_recorded(tmp_path: Path) -> None:
    settings = resolve({"method": "two-step-kliep", "lr": 1e6, "epochs": 3})
    with pytest.raises(DeadRunError):
        run(settings, tmp_path / "run", engine=Engine(CPU))
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["status"], result["accuracy"], result["epochs"]) == ("dead", None, 0)
    assert "not finite" in result["reason"]
    assert read_run(tmp_path / "run").status == "dead"


def test_a_network_must_name_its_hidden_layer() -> None:
    model = NormalizedNetwork(nn.Linear(5, 3))
    with pytest.raises(SettingsError, match="an attribute feature_layer that names its hidden layer"):
        _hidden(model, Samples(torch.zeros(2, 5), torch.tensor([0, 1])), 3, CPU)


def test_the_network_is_trained_with_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the learning rates of its epochs, and with gradient clipping."""
    rates, clips = [], []
    monkeypatch.setattr(two_step, "set_learning_rate", lambda _optimizer, rate: rates.append(rate))
    monkeypatch.setattr(loop, "clip_grad_norm_", lambda _parameters, clip: clips.append(clip))
    given = {"dataset": "digits", "method": "two-step-kliep", "epochs": 4, "decay_every": 2, "lr": 0.1, "clip": 2.0}
    settings = resolve(given)
    TrainingRun(settings, load_splits(settings), Engine(CPU, 0))
    assert rates == pytest.approx([0.1, 0.1, 0.01, 0.01])
    assert set(clips) == {2.0}
