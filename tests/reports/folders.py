"""Folders of runs and sweeps, written without training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np


def write_run(
    folder: Path,
    method: str,
    accuracies: list[float],
    status: str | None = "done",
    seconds: float = 0.5,
    flipped: list[bool] | None = None,
    weights: list[float] | None = None,
    **settings: Any,
) -> Path:
    """A run with these accuracies after its epochs; status None for one without a result."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"method": method, "seed": 0, **settings}))
    rows = [{"epoch": k + 1, "accuracy": value, "ess": 2.0 + k} for k, value in enumerate(accuracies)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    wrong = np.array([False, True] if flipped is None else flipped)
    labels = np.stack([np.arange(len(wrong)), wrong, np.zeros(len(wrong), int), wrong])
    np.save(folder / "labels.npy", labels)
    np.save(folder / "weights.npy", np.array([1.5, 0.1] if weights is None else weights, np.float32))
    if status is not None:
        mean = sum(accuracies) / len(accuracies) if accuracies else None
        reason = "epoch 1: broken" if status == "dead" else None
        result = {"status": status, "reason": reason, "accuracy": mean, "seconds_per_epoch": seconds}
        (folder / "result.json").write_text(json.dumps(result))
    return folder


def write_pictures(
    folder: Path, classes: list[str], count: int = 2, side: int = 4, channels: int = 1, labels: bool = True
) -> Path:
    """``count`` pictures of either end: samples 0, 1, ... with ``labels`` 0 given, 1 true and 1 predicted."""
    (folder / "classes.json").write_text(json.dumps(classes))
    size = 2 * count
    pixels = np.arange(size * side * side * channels).reshape(size, side, side, channels) % 256
    np.save(folder / "gallery.npy", pixels.astype(np.uint8))
    if labels:
        np.save(folder / "labels.npy", np.stack([10 + np.arange(size), *(np.full(size, k) for k in (0, 1, 1))]))
        np.save(folder / "weights.npy", (np.arange(size) / 10).astype(np.float32))
    ends = {"lowest": list(range(count)), "highest": list(range(count, size))}
    (folder / "gallery.json").write_text(json.dumps({"truth_known": True, "ends": ends}))
    return folder


def write_history(folder: Path, epochs: list[int], history: list[list[float]], labels: list[list[int]]) -> Path:
    """Weights after these epochs, the last of which are the run's, and rows of labels as a run keeps them."""
    np.save(folder / "weight_history.npy", np.array(history, np.float16))
    (folder / "weight_history.json").write_text(json.dumps({"epochs": epochs}))
    np.save(folder / "weights.npy", np.array(history[-1], np.float32))
    np.save(folder / "labels.npy", np.array(labels))
    return folder


def write_audit(folder: Path, losses: list[float], **about: Any) -> Path:
    """The files of an audit with these mean losses, and with confidence 0.9 in every prediction."""
    np.save(folder / "audit.npy", np.array([losses, [0.9] * len(losses), about.pop("source", range(len(losses)))]))
    found = {"fields": ["losses", "confidence", "source"], "numbering": "row of t.csv", "trusted": {}}
    (folder / "audit.json").write_text(json.dumps({**found, "columns": {}, **about}))
    return folder


def record(row: str, column: str, trial: int, accuracies: list[float], status: str = "done", **more: Any) -> Any:
    """A line of results.jsonl."""
    groups = {
        "intact": {"count": 30, "box": [1, 1, 1, 1, 2], "mean": 1.5, "histogram": [0, 10, 20]},
        "mislabelled": {"count": 10, "box": [0, 0, 0, 0, 1], "mean": 0.25, "histogram": [8, 2, 0]},
    }
    epochs = len(accuracies)
    return {
        "row": row,
        "column": column,
        "trial": trial,
        "folder": f"runs/{row}-{column}-{trial}",
        "status": status,
        "reason": None if status == "done" else "epoch 2: broken",
        "accuracy": sum(accuracies[-10:]) / max(len(accuracies[-10:]), 1),
        "epochs": epochs,
        "seconds_per_epoch": 0.25,
        "judged_on": "test set",
        "versions": {"torch": "2.9"},
        "curves": {
            "accuracy": accuracies,
            "top5": [min(100.0, value + 10) for value in accuracies],
            "ess": [30.0] * epochs,
            "weight_mean": [1.0] * epochs,
            "weight_intact": [1.5] * epochs,
            "weight_mislabelled": [0.25] * epochs,
        },
        "weights": {"edges": [0.0, 1.0, 2.0, 3.0], "groups": groups},
        **more,
    }


def write_sweep(folder: Path, records: list[Any], rows: list[str], columns: list[str], **recipe: Any) -> Path:
    """A sweep's folder without the folders of its runs."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "name": "noise",
        "title": "Label noise",
        "about": "A table of the paper.",
        "trials": 2,
        "measures": ["accuracy"],
        "common": {"dataset": "digits"},
        "rows": [{"label": label, "settings": {}} for label in rows],
        "columns": [{"label": label, "settings": {}} for label in columns],
        "changes": {},
        "deviations": [],
        "paper": {},
        **recipe,
    }
    (folder / "recipe.json").write_text(json.dumps(content))
    (folder / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in records))
    return folder
