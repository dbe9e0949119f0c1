"""The record of a run that has ended: its figures for result.json, and its line in a sweep's results.jsonl."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adiw.experiments.checked_io import Row, read_array, read_json, read_lines

LAST = 10  # epochs that the reported accuracy is the mean of, as in the paper
BINS = 50
CURVES = ("accuracy", "top5", "ess", "weight_mean", "weight_intact", "weight_mislabelled")


def summarise(metrics: list[Row], timing: list[Row], train_epochs: int | None = None) -> dict[str, Any]:
    """Mean accuracy of the last ten epochs, and median seconds per epoch without the first one (warm-up).

    A figure is None where no epoch was run. Epochs after the first ``train_epochs`` are fine-tuning: they are counted
    separately and not timed.

    >>> summarise([{"accuracy": 50.0, "top5": 90.0}, {"accuracy": 70.0, "top5": 100.0}], [{"train_seconds": 1.0}])
    {'accuracy': 60.0, 'accuracy_std': 10.0, 'top5': 95.0, 'epochs': 2, 'seconds_per_epoch': 1.0}
    """
    last = [row["accuracy"] for row in metrics[-LAST:]]
    seconds = [row["train_seconds"] for row in timing[:train_epochs]]
    fine_tuning = len(metrics[train_epochs:]) if train_epochs is not None else 0
    return {
        "accuracy": statistics.fmean(last) if last else None,
        "accuracy_std": statistics.pstdev(last) if last else None,
        "top5": statistics.fmean(row["top5"] for row in metrics[-LAST:]) if last else None,
        "epochs": len(metrics) - fine_tuning,
        **({"fine_tune_epochs": fine_tuning} if fine_tuning else {}),
        "seconds_per_epoch": statistics.median(seconds[1:] or seconds) if seconds else None,
    }


def run_record(folder: Path) -> dict[str, Any]:
    """result.json of the run in this folder, with its curves and the distribution of its weights.

    A run without a result.json has the status "unfinished".
    """
    file = folder / "result.json"
    result: dict[str, Any] = read_json(file) if file.exists() else {"status": "unfinished"}
    rows = read_lines(folder / "metrics.jsonl")
    result["curves"] = {
        key: [_short(row.get(key)) for row in rows] for key in CURVES if any(key in row for row in rows)
    }
    if (folder / "weights.npy").exists():
        weights = read_array(folder / "weights.npy")
        _, given, true, _ = read_array(folder / "labels.npy")
        result["weights"] = weight_distribution(weights, given != true)
    return result


def weight_distribution(weights: NDArray[np.float32], flipped: NDArray[np.bool_]) -> dict[str, Any]:
    """Histogram and quantiles of the weights (n,) of intact and mislabelled samples; of all if none is mislabelled.

    Weights beyond the last edge are counted in the last bin. Weights that are not finite, and groups without any
    weight, are excluded.

    >>> found = weight_distribution(np.array([0.0, 2.0, 2.0], np.float32), np.array([True, False, False]))
    >>> found["groups"]["intact"]["box"], found["groups"]["mislabelled"]["count"]
    ([2.0, 2.0, 2.0, 2.0, 2.0], 1)
    """
    finite = np.isfinite(weights)  # those of a dead run may be infinite or NaN
    top = max(2.0, float(np.quantile(weights[finite], 0.99))) if finite.any() else 2.0
    edges = np.linspace(0, top, BINS + 1)
    known = flipped.any() and len(flipped) == len(weights)
    parts = {"intact": finite & ~flipped, "mislabelled": finite & flipped} if known else {"all": finite}
    groups = {name: _group(weights[part], edges) for name, part in parts.items() if part.any()}
    return {"edges": [_short(edge) for edge in edges], "groups": groups}


def _group(weights: NDArray[np.float32], edges: NDArray[np.float64]) -> dict[str, Any]:
    counts, _ = np.histogram(np.clip(weights, edges[0], edges[-1]), edges)
    return {
        "count": len(weights),
        "box": [_short(value) for value in np.quantile(weights, (0.05, 0.25, 0.5, 0.75, 0.95))],
        "mean": _short(weights.mean()),
        "histogram": counts.tolist(),
    }


def _short(value: Any) -> float | None:
    """The value with four significant digits or two decimals, whichever is more.

    >>> _short(88.7234), _short(0.0123456), _short(None)
    (88.72, 0.01235, None)
    """
    if value is None or not np.isfinite(value):
        return None
    return round(float(value), 2) if abs(value) >= 10 else float(f"{float(value):.4g}")
