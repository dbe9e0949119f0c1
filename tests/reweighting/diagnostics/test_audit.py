"""``adiw.audit`` in a training loop: it finds wrong labels and duplicates, and refuses another training set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

import adiw
from adiw.label_audit import ranking_quality
from adiw.reweighting.diagnostics import quick_model
from adiw.reweighting.diagnostics.evaluation_pass import DIMENSIONS, evaluate_samples, nearest_others

COUNT, TRUSTED = 400, 60


class Task:
    """Three classes of which 30% of the labels are wrong, after training."""

    def __init__(self, divergence: str | None = None, epochs: int = 12, join: bool = True) -> None:
        torch.manual_seed(0)
        self.truth = torch.randint(3, (COUNT + TRUSTED,))
        self.x = torch.randn(COUNT + TRUSTED, 5) + 3 * torch.eye(3, 5)[self.truth]
        flip = torch.rand(COUNT + TRUSTED) < 0.3
        self.given = torch.where(flip, (self.truth + 1) % 3, self.truth)
        trusted = TensorDataset(self.x[COUNT:], self.truth[COUNT:])
        train = TensorDataset(self.x[:COUNT], self.given[:COUNT])
        self.train_set = adiw.Indexed(train, trusted if join else None)
        self.model = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 3))
        val_set: Any = self.train_set.trusted if join else trusted
        criterion = nn.CrossEntropyLoss(reduction="none")
        self.reweight = adiw.ADIW(self.model, criterion, val_set, len(self.train_set), divergence)
        optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        for _ in range(epochs):
            for x, y, index in DataLoader(self.train_set, batch_size=50, shuffle=True):
                self.reweight(self.model(x), y, index).backward()
                optimizer.step()
                optimizer.zero_grad()

    @property
    def wrong(self) -> Tensor:
        return (self.given != self.truth)[:COUNT]


@pytest.fixture(scope="module")
def task() -> Task:
    return Task()


def test_wrong_labels_come_first_and_the_cutoff_is_near_their_number(task: Task) -> None:
    found = adiw.audit(task.reweight, task.train_set, names=["ant", "bee", "cat"])
    wrong = task.wrong.numpy()
    area, precision = ranking_quality(found.losses[:COUNT], wrong)
    assert area > 0.95  # 0.5 by chance
    assert precision > 0.8  # 0.3 by chance
    assert sorted(found.order.tolist()) == list(range(COUNT))  # the trusted samples are not ranked
    assert found.cutoff is not None
    assert found.cutoff.wrong == pytest.approx(wrong.sum(), rel=0.4)
    suggested = found.suggested
    assert suggested is not None
    right = (suggested[:COUNT] == task.truth[:COUNT].numpy())[wrong & (suggested[:COUNT] >= 0)]
    assert right.mean() > 0.9
    assert found.name(found.given[0]) in ("ant", "bee", "cat")
    assert task.model.training


@pytest.mark.parametrize("divergence", ["kl", "mmd"])
def test_a_divergence_is_audited_as_well(divergence: str) -> None:
    task = Task(divergence)
    found = adiw.audit(task.reweight, task.train_set)
    assert ranking_quality(found.losses[:COUNT], task.wrong.numpy())[0] > 0.9
    assert found.cutoff is not None


def test_without_joined_trusted_samples_there_is_no_cutoff() -> None:
    task = Task(epochs=2, join=False)
    found = adiw.audit(task.reweight, task.train_set)
    assert (found.is_trusted, found.cutoff) == (None, None)
    assert len(found.order) == COUNT


def test_a_shuffled_loader_gives_the_same_as_the_set(task: Task) -> None:
    whole = adiw.audit(task.reweight, task.train_set)
    loaded = adiw.audit(task.reweight, DataLoader(task.train_set, batch_size=33, shuffle=True))
    np.testing.assert_allclose(loaded.losses, whole.losses, rtol=1e-5)
    assert loaded.predicted is not None
    assert whole.predicted is not None
    assert (loaded.predicted == whole.predicted).all()
    assert (loaded.given == whole.given).all()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda t: Subset(t.train_set, range(100)), ValueError, "100 different samples, but 460 were trained on"),
        (lambda t: DataLoader(t.train_set.dataset, batch_size=10), TypeError, "batches have no index"),
    ],
)
def test_another_training_set_is_refused(task: Task, make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        adiw.audit(task.reweight, make(task))


def test_columns_and_progress(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick_model, "_shared", {})  # its result would be that of another test
    seen: list[tuple[str, int, int]] = []
    found = adiw.audit(
        task.reweight,
        task.train_set,
        columns=lambda i: {"first": float(task.x[i, 0])},
        progress=lambda *progress: seen.append(progress),
    )
    assert seen[:2] == [("evaluating, sample", 256, 460), ("evaluating, sample", 460, 460)]
    assert seen[2:-1] == [("quick model, step", step, 900) for step in range(1, 901)]
    assert seen[-1] == ("neighbours, sample", 400, 400)
    first = int(found.order[0])
    assert found.table(1)["column first"] == [str(float(task.x[first, 0]))]


def test_the_page_and_the_file_are_saved(task: Task, tmp_path: Path) -> None:
    adiw.audit(task.reweight, task.train_set).save(tmp_path / "out", top=5, title="My labels")
    assert (tmp_path / "out" / "audit.csv").read_text().count("\n") == 6
    assert "<h1>My labels</h1>" in (tmp_path / "out" / "audit.html").read_text()


def test_duplicates_with_another_label_are_found() -> None:
    x, y = torch.randn(200, 6), torch.arange(200) % 2
    x[7], y[7], y[9] = x[9], 0, 1
    index, distance = nearest_others(x, y, torch.tensor([7, 9, 0]))
    assert index[:2].tolist() == [9, 7]
    assert distance[:2].tolist() == [0, 0]
    brute = (x - x[0]).norm(dim=1).masked_fill(y == y[0], torch.inf)
    assert index[2] == brute.argmin()
    assert nearest_others(x, torch.zeros(200), torch.tensor([0]))[0].tolist() == [-1]


class Words(Dataset[Any]):
    """Items that are mappings, with a target of two dimensions."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, i: int) -> dict[str, Tensor]:
        return {"x": torch.full((3,), float(i)), "y": torch.tensor([float(i)])}


def test_a_regression_from_mappings() -> None:
    torch.manual_seed(0)
    model, words = nn.Linear(3, 1), adiw.Indexed(Words())
    reweight = adiw.ADIW(
        model,
        lambda outputs, targets: (outputs - targets).square().flatten(),
        Subset(Words(), range(10)),
        12,
        "kl",
        forward=lambda model, batch: (model(batch["x"]), batch["y"]),
    )
    found = adiw.audit(reweight, words)
    assert not found.classes
    assert found.given.tolist() == list(range(12))
    assert found.predicted is not None
    expected = model(torch.stack([words[i]["x"] for i in range(12)]))[:, 0]
    np.testing.assert_allclose(found.predicted, expected.detach(), rtol=1e-6)
    np.testing.assert_allclose(found.losses, (found.predicted - found.given) ** 2, rtol=1e-5)
    assert (found.confidence, found.neighbour) == (None, None)


def test_features_are_the_input_of_the_last_linear_layer_projected() -> None:
    wide = 3 * DIMENSIONS
    model = nn.Sequential(nn.Linear(4, wide), nn.Tanh(), nn.Linear(wide, 2))
    x, y = torch.randn(50, 4), torch.arange(50) % 2
    found = evaluate_samples(model, nn.CrossEntropyLoss(reduction="none"), [(x, y)], lambda b: (model(b[0]), b[1]))
    assert found.features is not None
    assert found.features.shape == (50, DIMENSIONS)
    hidden = model[:2](x).detach()
    ratio = torch.pdist(found.features) / torch.pdist(hidden)
    assert 0.8 < float(ratio.median()) < 1.2  # distances are about preserved
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_predictions_are_the_best_class_in_evaluation_mode() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))
    x, y = torch.randn(20, 4), torch.arange(20) % 3
    before = {name: value.clone() for name, value in model.state_dict().items()}
    batches = zip(x.split(7), y.split(7), strict=True)
    found = evaluate_samples(model, nn.CrossEntropyLoss(reduction="none"), batches, lambda b: (model(b[0]), b[1]))
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    outputs = model.eval()(x)
    assert found.predicted is not None
    assert torch.equal(found.predicted, outputs.argmax(1))
    torch.testing.assert_close(found.confidence, outputs.softmax(1).amax(1).detach())
    torch.testing.assert_close(found.losses, nn.functional.cross_entropy(outputs, y, reduction="none").detach())
