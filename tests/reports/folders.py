"""Folders as runs leave them, written by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np


def write_run(
    folder: Path,
    method: str,
    accuracies: list[float],
    status: str | None = "done",
    seconds: float = 0.5,
    flipped: list[bool] | None = None,
    weights: list[float] | None = None,
) -> Path:
    """A run with these accuracies after its epochs; status None for one without a result."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"method": method, "seed": 0}))
    rows = [{"epoch": k + 1, "accuracy": value} for k, value in enumerate(accuracies)]
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
