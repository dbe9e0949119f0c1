"""The methods mixed and fine-tune: which samples they train on, at which rate, and resuming them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from adiw.data import ImageFiles
from adiw.engine.checkpoint import CheckpointError
from adiw.experiments import training_run
from adiw.experiments.checked_io import read_lines
from adiw.experiments.run import run
from adiw.experiments.settings import resolve
from adiw.experiments.splits import load_splits
from adiw.experiments.training_run import Engine, TrainingRun
from tests.experiments.test_resume import assert_same_run, interrupted
from tests.experiments.test_run import image_settings

CPU = torch.device("cpu")
GIVEN = {"method": "fine-tune", "epochs": 3, "fine_tune_epochs": 4}


def trained(folder: Path, **given: Any) -> dict[str, Any]:
    return run(resolve(given), folder, engine=Engine(CPU))


def test_fine_tuning_follows_uniform_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []
    set_rate = training_run.set_learning_rate
    monkeypatch.setattr(
        training_run, "set_learning_rate", lambda optimizer, rate: (rates.append(rate), set_rate(optimizer, rate))
    )
    result = trained(tmp_path / "tuned", **GIVEN)
    assert rates == pytest.approx([0.1] * 3 + [0.01] * 4)
    trained(tmp_path / "uniform", method="uniform", epochs=3)
    tuned, uniform = (read_lines(tmp_path / name / "metrics.jsonl") for name in ("tuned", "uniform"))
    assert tuned[:3] == uniform
    assert [row["epoch"] for row in tuned] == [1, 2, 3, 4, 5, 6, 7]
    assert (result["epochs"], result["fine_tune_epochs"]) == (3, 4)
    losses = [row["loss"] for row in tuned]
    assert losses[-1] < losses[3] < losses[2]  # the trusted labels are correct


def test_fine_tuning_trains_on_the_trusted_samples_in_small_batches() -> None:
    settings = resolve(GIVEN)
    splits = load_splits(settings)
    loop = TrainingRun(settings, splits, Engine(CPU, 0)).fine_tuning
    assert loop is not None
    loader: Any = loop.loader
    assert torch.equal(loader.x, splits.trusted.x)  # type: ignore[union-attr]
    assert (loader.size, len(loader)) == (8, 12)
    plain = resolve({"method": "uniform"})
    assert TrainingRun(plain, load_splits(plain), Engine(CPU, 0)).fine_tuning is None


def test_fine_tuning_repairs_a_network_that_has_memorised_wrong_labels(tmp_path: Path) -> None:
    tuned, uniform = (trained(tmp_path / name, method=name) for name in ("fine-tune", "uniform"))
    assert tuned["accuracy"] > uniform["accuracy"] + 10


def test_fine_tuning_begins_with_the_best_epoch_on_held_out_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = resolve({**GIVEN, "hold_out": 0.3})
    training = TrainingRun(settings, load_splits(settings), Engine(CPU, 0))
    for _ in range(3):
        training.train_epoch()
    assert training.fine_tuning is not None
    training.best.model = {name: torch.zeros_like(tensor) for name, tensor in training.best.model.items()}
    monkeypatch.setattr(training.fine_tuning, "run_epoch", lambda epoch, done: None)
    training.train_epoch()
    assert all(not bool(parameter.any()) for parameter in training.model.parameters())


@pytest.mark.parametrize(("after", "hold_out"), [*((k, 0) for k in range(1, 7)), (3, 0.3)])
def test_fine_tuning_is_resumed_exactly(tmp_path: Path, after: int, hold_out: float) -> None:
    given = {**GIVEN, "optimizer": "adam", "lr": 0.01, "hold_out": hold_out}
    trained(tmp_path / "whole", **given)
    settings = resolve(given)
    interrupted(settings, tmp_path / "cut", after, steps=2 * (after % 2))
    run(settings, tmp_path / "cut", engine=Engine(CPU), resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


def test_more_training_is_refused_once_fine_tuning_has_begun(tmp_path: Path) -> None:
    for after, allowed in ((3, True), (4, False)):
        folder = tmp_path / str(after)
        interrupted(resolve(GIVEN), folder, after)
        longer = resolve({**GIVEN, "epochs": 5})
        if allowed:
            assert run(longer, folder, engine=Engine(CPU), resume=True)["epochs"] == 5
            continue
        with pytest.raises(CheckpointError, match="had 3 epochs, which cannot become 5 in epoch 4"):
            run(longer, folder, engine=Engine(CPU), resume=True)
        with pytest.raises(CheckpointError, match="had 3 epochs, which cannot become 2 in epoch 4"):
            run(resolve({**GIVEN, "epochs": 2}), folder, engine=Engine(CPU), resume=True)


def test_mixed_is_uniform_if_the_trusted_samples_are_training_samples(tmp_path: Path) -> None:
    for method in ("mixed", "uniform"):
        trained(tmp_path / method, method=method, epochs=2)
    for name in ("metrics.jsonl", "weights.npy", "labels.npy"):
        assert (tmp_path / "mixed" / name).read_bytes() == (tmp_path / "uniform" / name).read_bytes()


@pytest.mark.parametrize("method", ["mixed", "fine-tune"])
def test_images_of_a_trusted_folder_are_trained_on(tmp_path: Path, method: str) -> None:
    folder = str(tmp_path / "trusted")
    settings = image_settings(tmp_path, method, trusted_folder=folder, epochs=2, fine_tune_epochs=2)
    splits = load_splits(settings)
    job = TrainingRun(settings, splits, Engine(CPU, 0))
    assert isinstance(job.train_set, ImageFiles)
    assert isinstance(splits.train, ImageFiles)
    assert isinstance(splits.trusted, ImageFiles)
    added = splits.trusted.paths if method == "mixed" else ()
    assert job.train_set.paths == splits.train.paths + added
    assert job.train_set.y.tolist() == splits.train.y.tolist() + splits.trusted.y.tolist()[: len(added)]
    assert job.train_set.train  # augmented
    if job.fine_tuning is not None:
        assert job.fine_tuning.loader.dataset.dataset.train  # type: ignore[attr-defined]
    result = run(settings, tmp_path / "run", engine=Engine(CPU, 0))
    assert result["status"] == "done"
    assert job.weights().tolist() == [1.0] * len(splits.train)
