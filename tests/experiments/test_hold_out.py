"""Trusted samples that are held out: they decide which epoch is kept, and take part in nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from adiw.data import ImageFiles
from adiw.engine import checkpoint
from adiw.experiments import best_epoch
from adiw.experiments import splits as splits_module
from adiw.experiments.best_epoch import BestEpoch
from adiw.experiments.checked_io import read_array, read_lines
from adiw.experiments.run import run
from adiw.experiments.settings import resolve
from adiw.experiments.splits import Splits, load_splits
from adiw.experiments.training_run import Engine, TrainingRun
from adiw.models import build
from tests.experiments.test_resume import assert_same_run, interrupted
from tests.experiments.test_run import image_settings

CPU = torch.device("cpu")


def splits_of(**given: Any) -> Splits:
    return load_splits(resolve({"dataset": "digits", "hold_out": 0.3, **given}))


def rows(samples: Any) -> set[bytes]:
    return {row.numpy().tobytes() for row in samples.x}


@pytest.mark.parametrize("shift", ["symmetric:0.4", "class-prior:0.5,10"])
def test_held_out_samples_are_neither_trained_on_nor_matched(shift: str) -> None:
    splits, whole = splits_of(shift=shift), splits_of(shift=shift, hold_out=0.0)
    assert splits.held_out is not None
    assert whole.held_out is None
    count = len(splits.held_out)
    assert count == round(0.3 * len(whole.trusted))
    assert rows(splits.held_out) | rows(splits.trusted) == rows(whole.trusted)
    assert not rows(splits.held_out) & (rows(splits.trusted) | rows(splits.train))
    assert len(splits.train) == len(whole.train) - count
    assert set(splits.trusted.y.tolist()) == set(splits.held_out.y.tolist()) == set(range(10))
    shifted = splits.shifted
    assert torch.equal(splits.train.x[shifted.trusted], splits.trusted.x)  # type: ignore[union-attr]
    assert torch.equal(splits.data.train.x[shifted.keep], splits.train.x)  # type: ignore[union-attr]
    stays = torch.isin(whole.shifted.keep, shifted.keep)  # the shift itself is the same
    assert torch.equal(whole.shifted.y[stays], shifted.y)
    assert torch.equal(whole.shifted.true_y[stays], shifted.true_y)
    assert torch.equal(whole.shifted.true_weights[stays], shifted.true_weights)  # type: ignore[index, arg-type]


def test_with_few_trusted_samples_none_is_held_out(tmp_path: Path) -> None:
    lines: list[str] = []
    given = {"trusted": 60, "hold_out": 0.3, "epochs": 2, "method": "uniform"}
    result = run(resolve(given), tmp_path, engine=Engine(CPU, log=lines.append))
    assert lines == ["the last epoch is kept, not the best: --hold-out 0.3 of 60 trusted samples are fewer than 20"]
    assert (result["held_out"], "best" in result) == (0, False)
    assert len(splits_of(trusted=60, hold_out=0.34).held_out) == 20  # type: ignore[arg-type]


def test_the_best_epoch_has_the_highest_accuracy_then_the_lowest_loss_then_comes_first() -> None:
    model, best = torch.nn.Linear(1, 1), BestEpoch()
    figures = [(80.0, 0.9), (90.0, float("nan")), (90.0, 0.5), (90.0, 0.4), (90.0, 0.4), (85.0, 0.1)]
    for epoch, (accuracy, loss) in enumerate(figures, start=1):
        torch.nn.init.constant_(model.weight, epoch)
        best.update({"epoch": epoch, "held_out_accuracy": accuracy, "held_out_loss": loss}, model)
    assert best.row is not None
    assert best.row["epoch"] == 4
    with best.loaded(model):
        assert model.weight.item() == 4
    assert model.weight.item() == 6


def test_an_epoch_of_the_warm_up_is_kept_only_until_another_has_ended() -> None:
    model, best, metrics = torch.nn.Linear(1, 1), BestEpoch(warmup=1), []
    expected = [(1, "1 to 1"), (2, "2 to 2"), (2, "2 to 3"), (4, "2 to 4")]
    for epoch, accuracy in enumerate((99.0, 80.0, 79.0, 81.0), start=1):
        row = {"epoch": epoch, "accuracy": 0.0, "top5": 0.0, "held_out_accuracy": accuracy, "held_out_loss": 1.0}
        metrics.append(row)
        best.update(row, model)
        found = best.record(metrics)["best"]
        assert (found["epoch"], found["why"].rpartition("epochs ")[2]) == expected[epoch - 1]


@pytest.mark.parametrize(("method", "epoch"), [("adiw", 2), ("adiw-kl", 2), ("diw", 2), ("uniform", 1), ("l2r", 1)])
def test_a_run_does_not_keep_an_epoch_in_which_all_weights_are_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, epoch: int
) -> None:
    monkeypatch.setattr(best_epoch, "score", lambda row: -row["epoch"])  # the earlier, the better
    assert finished(tmp_path, method=method, epochs=2)["best"]["epoch"] == epoch
    weights = read_array(tmp_path / "weight_history.npy")
    assert bool((weights[0] == 1).all()) is (method != "l2r")


def finished(folder: Path, **given: Any) -> dict[str, Any]:
    return run(resolve({"hold_out": 0.3, **given}), folder, engine=Engine(CPU))


def test_the_network_and_the_figures_of_the_best_epoch_are_kept(tmp_path: Path) -> None:
    """With 40% wrong labels uniform training memorises them, so the last epoch is far from the best."""
    result = finished(tmp_path, method="uniform")
    metrics = read_lines(tmp_path / "metrics.jsonl")
    best = max(metrics, key=lambda row: (row["held_out_accuracy"], -row["held_out_loss"]))
    names = ("epoch", "accuracy", "top5", "held_out_accuracy", "held_out_loss")
    why = "highest held-out accuracy of epochs 1 to 60"
    assert result["best"] == {name: best[name] for name in names} | {"why": why}
    assert result["last"] == {name: metrics[-1][name] for name in names}
    assert (result["accuracy"], result["top5"], result["held_out"]) == (best["accuracy"], best["top5"], 30)
    assert result["accuracy"] > result["last"]["accuracy"] + 5
    assert json.loads((tmp_path / "result.json").read_text()) == result

    state, splits = checkpoint.load(tmp_path, CPU), splits_of(method="uniform")
    assert state is not None
    job = TrainingRun(resolve({"hold_out": 0.3, "method": "uniform"}), splits, Engine(CPU, 0))
    job.model.load_state_dict(state["best"]["model"])
    job.evaluation.queue()
    found = job.evaluation.row(job.evaluation.figures.flatten().tolist())
    assert found == {name: best[name] for name in names[1:]}
    predicted = np.load(tmp_path / "labels.npy")[3]
    assert predicted.tolist() == job.predict(splits.train).tolist()
    job.model.load_state_dict(state["model"])
    assert predicted.tolist() != job.predict(splits.train).tolist()


@pytest.mark.parametrize("method", ["adiw-kl", "fine-tune", "mw-net"])
def test_a_run_that_is_stopped_anywhere_keeps_the_same_epoch(tmp_path: Path, method: str) -> None:
    given = {"method": method, "epochs": 5, "fine_tune_epochs": 3, "hold_out": 0.3}
    whole = finished(tmp_path / "whole", **given)
    for after in range(1, whole["last"]["epoch"]):
        cut = tmp_path / f"cut{after}"
        interrupted(resolve(given), cut, after)
        again = run(resolve(given), cut, engine=Engine(CPU), resume=True)
        assert_same_run(tmp_path / "whole", cut)
        assert [again[key] for key in ("accuracy", "best", "last")] == [
            whole[key] for key in ("accuracy", "best", "last")
        ]


def test_a_longer_run_may_find_a_better_epoch(tmp_path: Path) -> None:
    finished(tmp_path / "whole", method="adiw-kl", epochs=6)
    short = finished(tmp_path / "run", method="adiw-kl", epochs=1)
    settings = resolve({"hold_out": 0.3, "method": "adiw-kl", "epochs": 6})
    longer = run(settings, tmp_path / "run", engine=Engine(CPU), resume=True)
    assert (short["best"]["epoch"], short["last"]["epoch"]) == (1, 1)
    assert longer["best"]["epoch"] > 1
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_nothing_is_held_out_unless_it_is_asked_for(tmp_path: Path) -> None:
    """The settings, metrics and results of recipes and of Python code have no trace of it."""
    settings = resolve({"method": "uniform", "epochs": 1})
    result = run(settings, tmp_path, engine=Engine(CPU))
    assert not {"hold_out", "steps", "fine_tune_epochs"} & settings.as_dict().keys()
    assert not {"held_out", "best", "last"} & result.keys()
    assert not any(name.startswith("held_out") for row in read_lines(tmp_path / "metrics.jsonl") for name in row)


def test_networks_with_buffers_are_kept_whole() -> None:
    """Batch norm's statistics are part of the best network."""
    model, best = build("resnet18-cifar", (3, 8, 8), 2), BestEpoch()
    best.update({"epoch": 1, "held_out_accuracy": 1.0, "held_out_loss": 1.0}, model)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model(torch.randn(4, 3, 8, 8))
    with best.loaded(model):
        assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert any(not torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_images_of_a_trusted_folder_are_held_out_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splits_module, "LEAST_HELD_OUT", 8)
    given = {"trusted_folder": str(tmp_path / "trusted"), "hold_out": 0.5, "epochs": 2}
    settings = image_settings(tmp_path, "mixed", **given)
    splits = load_splits(settings)
    train, trusted, held_out, mixed = splits.train, splits.trusted, splits.held_out, splits.mixed
    for samples in (train, trusted, held_out, mixed):
        assert isinstance(samples, ImageFiles)
    assert (len(train), len(trusted), len(held_out)) == (12, 8, 8)  # type: ignore[arg-type]
    assert not set(held_out.paths) & set(mixed.paths)  # type: ignore[union-attr]
    assert len(mixed) == 20
    assert run(settings, tmp_path / "run", engine=Engine(CPU, 0))["held_out"] == 8
