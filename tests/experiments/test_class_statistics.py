"""Figures by class: against their definitions, and in the result of a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import confusion_matrix, recall_score

from adiw.data import Data, Samples
from adiw.experiments.diagnosis import CONFUSIONS, MATRIX, class_statistics
from adiw.experiments.splits import Splits
from adiw.shifts import Shifted


def splits_of(test: torch.Tensor, trusted: torch.Tensor, train: torch.Tensor, classes: int) -> Splits:
    def samples(y: torch.Tensor) -> Samples:
        return Samples(torch.zeros(len(y), 2), y)

    data = Data("made", samples(train), samples(test), tuple(f"c{k}" for k in range(classes)))
    none = torch.zeros(0, dtype=torch.int64)
    shifted = Shifted(torch.arange(len(train)), train, train, none, None)
    return Splits(data, data.train, samples(trusted), data.test, shifted)


def test_they_are_as_scikit_learn_defines_them() -> None:
    generator = torch.Generator().manual_seed(0)
    test, predicted = (torch.randint(4, (300,), generator=generator) for _ in range(2))
    trusted = torch.tensor([0, 0, 0, 1])
    found = class_statistics(splits_of(test, trusted, torch.arange(8) % 4, 5), predicted)
    assert found["confusion"] == confusion_matrix(test, predicted, labels=range(5)).tolist()
    np.testing.assert_allclose(found["accuracy"][:4], 100 * recall_score(test, predicted, average=None), atol=1e-3)
    assert found["accuracy"][4] is None  # no test sample is of the last class
    assert found["trusted_share"] == [75.0, 25.0, 0.0, 0.0, 0.0]
    assert found["train_share"] == [25.0, 25.0, 25.0, 25.0, 0.0]
    np.testing.assert_allclose(found["predicted_share"], 100 * np.bincount(predicted, minlength=5) / 300, atol=1e-3)
    counts = torch.bincount(test)
    most = int(counts.argmax())
    assert found["majority"] == {"class": f"c{most}", "rate": 100 * int(counts[most]) / 300}
    first = found["confusions"][0]
    wrong = np.array(found["confusion"]) * (1 - np.eye(5, dtype=int))
    assert first["count"] == wrong.max()
    assert wrong[int(first["true"][1:]), int(first["predicted"][1:])] == first["count"]


def test_many_classes_keep_only_the_most_frequent_confusions() -> None:
    size = MATRIX + 1
    test = torch.arange(size).repeat(2)
    found = class_statistics(splits_of(test, test, test, size), (test + 1) % size)
    assert found["confusion"] is None
    assert len(found["confusions"]) == CONFUSIONS
    assert found["confusions"][0]["count"] == 2


def test_a_run_records_them(finished: Callable[[str], Path]) -> None:
    folder = finished("adiw-kl")
    result = json.loads((folder / "result.json").read_text())
    found = result["predictions"]
    matrix = np.array(found["confusion"])
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    kept = result.get("best", rows[-1])  # the network of the best epoch, or of the last one
    np.testing.assert_allclose(100 * matrix.trace() / matrix.sum(), kept["accuracy"])
    assert found["classes"] == json.loads((folder / "classes.json").read_text())
