"""What a table, a figure or a page needs of a run that has ended, in one record of a few kilobytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adiw.experiments.sealed import read_array, read_json, read_lines

LAST = 10  # epochs that a reported figure is the mean of, as in the paper
BINS = 50
CURVES = ("accuracy", "top5", "ess", "weight_mean", "weight_intact", "weight_mislabelled")


def outcome(folder: Path) -> dict[str, Any]:
    """The result of the run in this folder, with its curves and the distribution of its weights.

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
        result["weights"] = distribution(weights, given != true)
    return result


def distribution(weights: NDArray[np.float32], flipped: NDArray[np.bool_]) -> dict[str, Any]:
    """Histogram and quantiles of the weights (n,) of intact and mislabelled samples, or of all where none is flipped.

    What lies beyond the last edge is counted in the last bin. Weights that are not finite are left out, and so is a
    group without any.

    >>> found = distribution(np.array([0.0, 2.0, 2.0], np.float32), np.array([True, False, False]))
    >>> found["groups"]["intact"]["box"], found["groups"]["mislabelled"]["count"]
    ([2.0, 2.0, 2.0, 2.0, 2.0], 1)
    """
    finite = np.isfinite(weights)  # those of a dead run may not be
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
    """Four significant digits or two decimals, whichever is more: a record stays readable.

    >>> _short(88.7234), _short(0.0123456), _short(None)
    (88.72, 0.01235, None)
    """
    if value is None or not np.isfinite(value):
        return None
    return round(float(value), 2) if abs(value) >= 10 else float(f"{float(value):.4g}")
