"""Every method, from settings to the files of a finished run."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from adiw.divergences import MMD, Squared, Wasserstein
from adiw.engine.train_loader import TensorLoader, batches
from adiw.experiments.audit_files import read_audit
from adiw.experiments.checked_io import read_lines
from adiw.experiments.dead_run import DeadRunError
from adiw.experiments.methods import METHODS, find
from adiw.experiments.model_and_optimizer import build_optimizer
from adiw.experiments.run import run
from adiw.experiments.settings import Settings, SettingsError, resolve
from adiw.experiments.splits import load_splits, without_augmentation
from adiw.experiments.training_run import Engine, TrainingRun, reading, snapshot_epochs
from tests.cli.images import write_images
from tests.experiments.conftest import EPOCHS, short
from tests.experiments.tables import write_table

CPU = torch.device("cpu")
FILES = {
    "SHA256SUMS",
    "checkpoint.pt",
    "classes.json",
    "config.json",
    "labels.npy",
    "metrics.jsonl",
    "result.json",
    "timing.jsonl",
    "weight_history.json",
    "weight_history.npy",
    "weights.npy",
}
METRICS = {"epoch", "loss", "nonfinite", "accuracy", "top5"}
WEIGHTS = {"ess", "weight_mean", "weight_max", "share_zero", "weight_intact", "weight_mislabelled"}


def read_rows(file: Path) -> list[dict[str, Any]]:
    return read_lines(file)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_and_writes_its_files(finished: Callable[[str], Path], method: str) -> None:
    folder, settings = finished(method), short(method)
    task = load_splits(settings)
    n = len(task.train)
    gallery = set() if method == "val-only" else {"gallery.json", "gallery.npy"}
    assert {file.name for file in folder.iterdir()} == FILES | gallery | {"audit.json", "audit.npy"}
    assert json.loads((folder / "config.json").read_text()) == settings.as_dict()

    metrics = read_rows(folder / "metrics.jsonl")
    assert [row["epoch"] for row in metrics] == list(range(1, EPOCHS + 1))
    for row in metrics:
        trained = {"train_accuracy"} if method.startswith("adiw") else set()
        assert set(row) == METRICS | WEIGHTS | trained
        assert all(math.isfinite(value) for value in row.values())
        assert 0 <= row["accuracy"] <= row["top5"] <= 100
        assert row["nonfinite"] == 0
    result = json.loads((folder / "result.json").read_text())
    assert (result["status"], result["reason"], result["epochs"]) == ("done", None, settings.epochs)
    assert result["accuracy"] == pytest.approx(np.mean([row["accuracy"] for row in metrics]))
    assert result["settings"] == settings.as_dict()
    assert result["judged_on"] == "test set"

    weights = np.load(folder / "weights.npy")
    assert (weights.shape, weights.dtype) == ((n,), np.float32)
    assert (weights >= 0).all()
    history = np.load(folder / "weight_history.npy")
    assert history.shape == (EPOCHS, n)
    assert json.loads((folder / "weight_history.json").read_text()) == {"epochs": list(range(1, EPOCHS + 1))}
    assert history.dtype == np.float32
    assert np.array_equal(history[-1], weights)
    assert metrics[-1]["weight_mean"] == pytest.approx(weights.mean(), rel=1e-4)

    keep, given, true, predicted = np.load(folder / "labels.npy")
    assert keep.tolist() == task.shifted.keep.tolist()
    assert given.tolist() == task.train.y.tolist()
    assert true.tolist() == task.shifted.true_y.tolist()
    assert set(predicted) <= set(range(10))


# Four epochs of clean training pass 60%; trusted samples alone make one step an epoch.
@pytest.mark.parametrize("method", [name for name in METHODS if name != "val-only"])
def test_every_method_learns(finished: Callable[[str], Path], method: str) -> None:
    best = max(row["accuracy"] for row in read_rows(finished(method) / "metrics.jsonl"))
    assert best > 30  # three times chance


def test_times_are_in_their_own_file_and_nowhere_in_the_metrics(finished: Callable[[str], Path]) -> None:
    timing = read_rows(finished("uniform") / "timing.jsonl")
    assert [set(row) for row in timing] == [{"epoch", "train_seconds", "evaluate_seconds"}] * EPOCHS
    assert all(row["train_seconds"] > 0 for row in timing)
    assert "seconds" not in (finished("uniform") / "metrics.jsonl").read_text()


def test_the_oracle_has_the_true_weights_and_val_only_ignores_the_others(finished: Callable[[str], Path]) -> None:
    task = load_splits(resolve({"epochs": EPOCHS}))
    assert task.shifted.true_weights is not None
    np.testing.assert_allclose(np.load(finished("oracle") / "weights.npy"), task.shifted.true_weights.numpy())
    used = np.load(finished("val-only") / "weights.npy")
    assert np.flatnonzero(used).tolist() == task.shifted.trusted.tolist()
    assert read_rows(finished("val-only") / "metrics.jsonl")[-1]["weight_mislabelled"] == 0


def test_adiw_gives_mislabelled_samples_less_weight(finished: Callable[[str], Path]) -> None:
    last = read_rows(finished("adiw-kl") / "metrics.jsonl")[-1]
    assert last["weight_intact"] > 1.1 > 0.9 > last["weight_mislabelled"]


@pytest.mark.parametrize("method", ["adiw-kl", "adiw-wa", "random", "mw-net"])
def test_the_seed_decides_every_bit(finished: Callable[[str], Path], tmp_path: Path, method: str) -> None:
    torch.rand(7)  # earlier random numbers have no effect
    for seed in (0, 1):
        run(resolve({"method": method, "epochs": EPOCHS, "seed": seed}), tmp_path / str(seed), engine=Engine(CPU))
    first = finished(method)
    for name in ("metrics.jsonl", "weights.npy", "weight_history.npy", "labels.npy", "gallery.json"):
        assert (tmp_path / "0" / name).read_bytes() == (first / name).read_bytes()
        assert (tmp_path / "1" / name).read_bytes() != (first / name).read_bytes()


def test_a_selection_split_is_evaluated_instead_of_the_test_set(tmp_path: Path) -> None:
    settings = resolve({"method": "uniform", "epochs": 2, "selection": 200})
    result = run(settings, tmp_path, engine=Engine(CPU))
    assert result["judged_on"] == "selection split"
    assert len(np.load(tmp_path / "weights.npy")) == 1097
    assert all((2 * row["accuracy"]).is_integer() for row in read_rows(tmp_path / "metrics.jsonl"))  # of 200 samples


def test_progress_is_called_after_every_epoch(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = []
    run(resolve({"method": "uniform", "epochs": 3}), tmp_path, engine=Engine(CPU), progress=rows.append)
    assert rows == [{**row, "epochs": 3} for row in read_rows(tmp_path / "metrics.jsonl")]


def test_the_learning_rate_decays_with_the_settings(tmp_path: Path) -> None:
    settings = resolve({"method": "uniform", "epochs": 3, "decay_every": 1, "decay": 1e-12, "momentum": 0.0})
    run(settings, tmp_path, engine=Engine(CPU))
    accuracies = [row["accuracy"] for row in read_rows(tmp_path / "metrics.jsonl")]
    assert accuracies[0] == accuracies[1] == accuracies[2]  # after the first epoch nothing moves


def test_epochs_are_requested_by_number_also_after_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, set_epoch = [], TensorLoader.set_epoch
    monkeypatch.setattr(
        TensorLoader, "set_epoch", lambda loader, *given: (asked.append(given[0]), set_epoch(loader, *given))[1]
    )
    for epochs in (2, 4):
        settings = resolve({"method": "uniform", "epochs": epochs})
        run(settings, tmp_path, engine=Engine(CPU), resume=epochs == 4)
    assert asked == [0, 1, 2, 3]


def image_settings(tmp_path: Path, method: str, **more: object) -> Settings:
    random = np.random.default_rng(0)
    for split, count in (("train", 6), ("val", 2), ("trusted", 8)):
        for name in ("ant", "bee"):
            (tmp_path / split / name).mkdir(parents=True)
            for i in range(count):
                pixels = random.integers(0, 256, (16, 16, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / split / name / f"{i}.png")
    given = {"dataset": "imagefolder", "path": str(tmp_path), "shift": "pair:0.1", "batch": 6}
    return resolve({**given, "model": "tests.experiments.tiny:build", "method": method, **more})


def test_trusted_images_of_another_folder_train_val_only_and_all_weights_are_zero(tmp_path: Path) -> None:
    """There are more trusted images than training images, and none is a training image."""
    settings = image_settings(tmp_path, "val-only", trusted_folder=str(tmp_path / "trusted"), epochs=1)
    result = run(settings, tmp_path / "run", engine=Engine(CPU, 0))
    assert result["status"] == "done"
    assert np.load(tmp_path / "run" / "weights.npy").tolist() == [0.0] * 12
    assert read_rows(tmp_path / "run" / "metrics.jsonl")[0]["ess"] == 0


@pytest.mark.parametrize("where", ["training set", "folder"])
def test_the_audit_of_image_files_has_a_cutoff(tmp_path: Path, where: str) -> None:
    """In a first epoch of few steps a quick model reads the images again, and all trusted ones are compared."""
    write_images(tmp_path, train=60, classes=("ant", "bee"))
    write_images(tmp_path / "checked", train=20, classes=("ant", "bee"))
    for i in range(25):  # bees among the ants
        (tmp_path / f"train/bee/{i}.png").rename(tmp_path / f"train/ant/wrong-{i}.png")
    right = [i for i in range(120) if i not in range(60, 85)]  # "wrong" is after all numbers
    (tmp_path / "trusted.txt").write_text("\n".join(map(str, right[::2])))
    given = {"trusted_folder": str(tmp_path / "checked/train")}
    if where == "training set":
        given = {"trusted_file": str(tmp_path / "trusted.txt")}
    data = {"dataset": "imagefolder", "path": str(tmp_path), "model": "tests.experiments.tiny:build"}
    run(resolve({**data, **given, "batch": 20, "epochs": 2}), tmp_path / "run", engine=Engine(CPU, 0))
    audit = read_audit(tmp_path / "run")
    assert audit.trusted is not None
    assert len(audit.trusted.unseen) == (40 if where == "folder" else len(right[::2]))
    assert audit.unseen is not None
    wrong = np.array(["wrong" in row["file"] for row in (audit.columns.get(i, {"file": ""}) for i in range(120))])
    assert wrong.sum() == 25
    assert audit.unseen[wrong].min() > np.median(audit.unseen[~wrong])
    assert audit.cutoff is not None


@pytest.mark.parametrize("method", ["uniform", "val-only"])
def test_images_are_augmented_for_training_alone(tmp_path: Path, method: str) -> None:
    settings = image_settings(tmp_path, method, trusted=6)
    job = TrainingRun(settings, load_splits(settings), Engine(CPU, 0))
    assert len(job.train_set) == (12 if method == "uniform" else 6)
    looked, again = (torch.cat([x for x, _ in job.evaluation.batches(job.train_set)]) for _ in range(2))
    assert torch.equal(looked, again)
    plain = without_augmentation(job.train_set)
    assert torch.equal(looked, torch.stack([plain[i][0] for i in range(len(plain))]))
    loader = job.train_loader(job.train_set)
    first, second = (
        {int(i): x for xs, _, ids in batches(loader, k) for x, i in zip(xs.clone(), ids.tolist(), strict=True)}
        for k in (0, 1)
    )
    assert all(not torch.equal(first[i], second[i]) for i in first.keys() & second.keys())


@pytest.mark.parametrize("method", ["adiw-km", "adiw-kl", "diw", "l2r", "mw-net"])
def test_workers_decode_trusted_images(tmp_path: Path, method: str) -> None:
    settings = image_settings(tmp_path, method, trusted=6)
    job = TrainingRun(settings, load_splits(settings), Engine(CPU, 1))
    assert job.reweight.val_schedule.workers == 1
    assert job.reweight.val_schedule.cached is not None


def test_trusted_samples_in_memory_need_no_workers() -> None:
    job = TrainingRun(resolve({}), load_splits(resolve({})), Engine(CPU, 4))
    assert job.reweight.val_schedule.workers == 0


def test_a_gpu_keeps_trusted_samples_up_to_an_eighth_of_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    task, gpu = load_splits(resolve({})), torch.device("cuda")
    assert reading(task, CPU, 4)["cache_bytes"] == 2**30
    for memory, kept in ((80 * 2**30, 10 * 2**30), (4 * 2**30, 2**30)):
        properties = SimpleNamespace(total_memory=memory)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device, found=properties: found)
        assert reading(task, gpu, 4)["cache_bytes"] == kept


def test_both_optimizers_take_their_settings() -> None:
    model = torch.nn.Linear(2, 2)
    sgd = build_optimizer(resolve({"lr": 0.5, "momentum": 0.3, "weight_decay": 0.2}), model)
    assert type(sgd) is torch.optim.SGD
    assert [sgd.defaults[key] for key in ("lr", "momentum", "weight_decay")] == [0.5, 0.3, 0.2]
    adam = build_optimizer(resolve({"optimizer": "adam", "lr": 0.5, "weight_decay": 0.2}), model)
    assert type(adam) is torch.optim.Adam
    assert [adam.defaults[key] for key in ("lr", "weight_decay")] == [0.5, 0.2]


@pytest.mark.parametrize(
    ("method", "given", "divergence"),
    [
        ("adiw-ls", {"penalty": 1e-3}, Squared(penalty=1e-3)),
        ("adiw-ls", {"width": 0.3, "step_size": 0.2}, Squared(width=0.3, step_size=0.2)),
        ("adiw-wa", {"penalty": 5.0, "critic": "network"}, Wasserstein(penalty=5.0, critic="network")),
        ("adiw-wa", {}, Wasserstein()),
        ("adiw-km", {"penalty": 5.0, "critic": "network", "width": 0.3}, MMD(width=0.3)),
    ],
)
def test_a_divergence_takes_the_settings_that_it_has(method: str, given: dict[str, Any], divergence: object) -> None:
    settings = resolve({"method": method, **given})
    assert TrainingRun(settings, load_splits(settings), Engine(CPU, 0)).reweight.divergence == divergence


@pytest.mark.parametrize("epochs", [1, 3, 20, 21, 400])
def test_snapshots_are_few_and_the_last_epoch_is_among_them(epochs: int) -> None:
    chosen = sorted(snapshot_epochs(epochs))
    assert len(chosen) == min(epochs, 20)
    assert chosen[-1] == epochs
    assert chosen[0] >= 1


def test_an_unknown_method_is_an_error_before_files_are_written(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="unknown method 'adiwkl': expected one of adiw-kl, "):
        run(resolve({"method": "adiwkl"}), tmp_path / "run", engine=Engine(CPU))
    assert not (tmp_path / "run").exists()
    with pytest.raises(SettingsError) as raised:
        find("nonsense")
    assert set(str(raised.value).partition("one of ")[2].split(", ")) == set(METHODS)


def test_the_oracle_needs_true_weights(tmp_path: Path) -> None:
    given = {"dataset": "csv", "path": str(write_table(tmp_path / "t.csv")), "shift": "none", "trusted": 30}
    with pytest.raises(SettingsError, match="oracle needs the true weights"):
        run(resolve({**given, "method": "oracle"}), tmp_path / "run", engine=Engine(CPU))


@pytest.mark.parametrize(
    "given",
    [
        {"method": "adiw-kl", "transform": "features"},
        {"method": "adiw-km", "width": 0.1, "step_size": 0.2},
        {"method": "adiw-ls", "width": "auto", "exact": True},
        {"method": "adiw-wa", "mean_one": True, "cap": 3.0, "min_ess": 0.5},
        {"method": "adiw-wa", "critic": "network", "penalty": 5.0},
        {"method": "adiw-kl", "val_batch": 20, "val_refresh": 5},
        {"method": "diw", "width": "quantile"},
        {"method": "diw", "solver": "osqp"},
        {"method": "two-step-kliep", "shift": "none"},
        {"method": "uniform", "channels_last": True, "optimizer": "sgd", "lr": 0.01},
        {"method": "uniform", "bf16": True},  # ignored on a CPU
    ],
    ids=lambda given: "-".join(str(value) for value in given.values()),
)
def test_the_settings_of_methods_on_a_table(tmp_path: Path, given: dict[str, Any]) -> None:
    table = write_table(tmp_path / "t.csv", rows=150)
    shared = {"dataset": "csv", "path": str(table), "shift": "symmetric:0.4", "trusted": 40, "batch": 32, "epochs": 2}
    settings = resolve({**shared, **given})
    if given.get("solver"):
        pytest.importorskip("qpsolvers", reason="the solvers need the extra adiw[qp]")
    result = run(settings, tmp_path / "run", engine=Engine(CPU))
    assert result["status"] == "done"
    rows = read_rows(tmp_path / "run" / "metrics.jsonl")
    if "cap" in given:
        assert rows[-1]["weight_max"] <= 3.0 + 1e-5
    assert ("weight_intact" in rows[-1]) == (given.get("shift") != "none")
    assert all(math.isfinite(row["loss"]) for row in rows)


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ({"method": "adiw-ls", "step_size": 1e6}, r"the weights diverged first \(epoch 2: .*\): lower step_size"),
        ({"method": "adiw-wa", "step_size": 1e6}, r"the weights diverged first \(epoch 2: .*\): lower step_size"),
        ({"method": "adiw-wa", "decay": 1e7, "decay_every": 3}, "lower the learning rate"),  # diverges within epoch 4
        ({"method": "adiw-kl", "lr": 1e6}, "lower the learning rate"),
    ],
    ids=lambda value: value.get("method") if isinstance(value, dict) else "",
)
def test_the_reason_names_the_weights_or_the_losses_that_diverged(
    tmp_path: Path, given: dict[str, Any], advice: str
) -> None:
    with pytest.raises(DeadRunError, match=advice):
        run(resolve({**given, "epochs": 12}), tmp_path, engine=Engine(CPU))


@pytest.mark.filterwarnings("error")
def test_weights_beyond_half_precision_stay_finite(tmp_path: Path) -> None:
    settings = resolve({"method": "adiw-ls", "step_size": 1e6, "epochs": 3})
    run(settings, tmp_path, engine=Engine(CPU))
    history = np.load(tmp_path / "weight_history.npy")
    assert history.max() > 65_504
    assert np.isfinite(history).all()
    assert (tmp_path / "gallery.json").exists()
