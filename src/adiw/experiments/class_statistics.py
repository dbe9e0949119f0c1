"""Statistics of each class for result.json: accuracy, shares of predictions and of trusted samples, confusions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from adiw.experiments.splits import Splits

MATRIX = 30  # classes: with more, only the most frequent confusions are kept
CONFUSIONS = 20


def class_statistics(splits: Splits, predicted: Tensor) -> dict[str, Any]:
    """The entry "predictions" of result.json, from the predicted classes (m,) of the test samples.

    Shares and accuracies are in percent, in the order of the classes. ``confusion[i][j]`` counts the test samples of
    class i that are predicted as j. The majority rate is the accuracy of always predicting the most frequent class.
    """
    names, true = list(splits.data.classes), splits.test.y.cpu()
    size = len(names)
    matrix = torch.bincount(true * size + predicted, minlength=size * size).reshape(size, size)
    count = matrix.sum(1)
    accuracy = 100 * matrix.diagonal().double() / count
    most = int(count.argmax())
    return {
        "classes": names,
        "test_samples": count.tolist(),
        "accuracy": [None if n == 0 else round(float(a), 3) for a, n in zip(accuracy, count, strict=True)],
        "predicted_share": _shares(predicted, size),
        "test_share": _shares(true, size),
        "trusted_share": _shares(splits.trusted.y.cpu(), size),
        "train_share": _shares(splits.train.y.cpu(), size),
        "majority": {"class": names[most], "rate": 100 * float(count[most]) / max(len(true), 1)},
        "confusion": matrix.tolist() if size <= MATRIX else None,
        "confusions": _most_frequent(matrix, names),
    }


def _shares(labels: Tensor, size: int) -> list[float]:
    counts = torch.bincount(labels, minlength=size).double()
    return [round(float(share), 3) for share in 100 * counts / counts.sum().clamp_min(1)]


def _most_frequent(matrix: Tensor, names: list[str]) -> list[dict[str, Any]]:
    """The most frequent confusions of two classes, the most frequent first."""
    wrong = matrix.clone().fill_diagonal_(0).flatten()
    counts, cells = wrong.topk(min(CONFUSIONS, len(wrong)))
    size = len(names)
    return [
        {"true": names[cell // size], "predicted": names[cell % size], "count": count}
        for count, cell in zip(counts.tolist(), cells.tolist(), strict=True)
        if count
    ]
