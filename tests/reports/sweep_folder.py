"""Folders of sweeps as the command writes them, with made-up figures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

COLUMNS = ("0.3 pair", "0.4 symmetric", "0.5 symmetric")
METHODS = {  # accuracy at its highest and at the end, at 0.4 symmetric; seconds per epoch
    "Val-Only": (80.0, 79.3, 0.01),
    "Uniform": (86.0, 62.5, 0.09),
    "Random": (86.5, 73.8, 0.09),
    "L2R": (86.0, 85.0, 0.31),
    "MW-Net": (86.5, 85.5, 0.42),
    "DIW": (89.8, 89.5, 1.1),
    "ADIW-KM": (89.0, 88.8, 0.12),
    "ADIW-KL": (89.4, 89.2, 0.11),
    "ADIW-LS": (89.5, 89.3, 0.12),
    "ADIW-WA": (89.2, 89.0, 0.15),
}
PAPER = {"accuracy": {"Uniform": [[65.11, 0.23], [62.88, 0.61], [55.43, 0.58]], "Oracle": [None] * 3}}
PROVENANCE = {
    "versions": {"torch": "2.9.0", "adiw": "0.1.0"},
    "hardware": {"device": "NVIDIA H200", "cpus": 16},
    "commit": "0123456789ab",
}


def recipe(rows: Sequence[str], columns: Sequence[str] = COLUMNS, **more: Any) -> dict[str, Any]:
    """The content of recipe.json; a row's method is its label in small letters."""
    return {
        "name": "made-up",
        "title": "A made-up sweep",
        "about": "Nothing here was run.",
        "trials": 3,
        "measures": ["accuracy"],
        "common": {"dataset": "fashion-mnist", "epochs": 400},
        "rows": [{"label": row, "settings": {"method": row.lower()}} for row in rows],
        "columns": [{"label": column, "settings": {}} for column in columns],
        "changes": {},
        "deviations": [],
        "paper": {},
        **more,
    }


def result(row: str, column: str, trial: int, accuracy: Sequence[float], **more: Any) -> dict[str, Any]:
    """A line of results.jsonl with that curve."""
    last = list(accuracy)[-10:]
    return {
        "row": row,
        "column": column,
        "trial": trial,
        "folder": f"runs/{row}-{column}-{trial}",
        "side_by_side": 1,
        "status": "done",
        "reason": None,
        "accuracy": float(np.mean(last)) if last else None,
        "epochs": len(accuracy),
        "seconds_per_epoch": 0.5,
        "judged_on": "test set",
        "curves": {"accuracy": list(accuracy)},
        **PROVENANCE,
        **more,
    }


def write(
    folder: Path, plan: dict[str, Any], results: Iterable[dict[str, Any]], timing: Iterable[dict[str, Any]] = ()
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "recipe.json").write_text(json.dumps(plan))
    for name, lines in (("results.jsonl", results), ("timing.jsonl", timing)):
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def realistic(folder: Path, epochs: int = 400, trials: int = 3) -> Path:
    """Ten methods and the truth on three settings, with one dead trial, one failed, and a cell that is missing."""
    random = np.random.default_rng(0)
    results, timing = [], []
    methods = {**METHODS, "Oracle": (89.9, 89.6, 0.09)}
    for at, column in enumerate(COLUMNS):
        for row, (high, end, seconds) in methods.items():
            if (row, column) == ("MW-Net", "0.5 symmetric"):
                continue
            for trial in range(trials):
                curve = _curve(high - at / 2, end - at * (high - end) / 8 - at / 2, epochs, random)
                line = result(row, column, trial, curve, weights=_weights(row, random))
                line["curves"]["top5"] = np.minimum(np.add(curve, 12), 99.9).round(2).tolist()
                results.append(line)
            timing.append({"row": row, "column": column, "epochs": 3, "seconds_per_epoch": seconds, **PROVENANCE})
    dead = next(line for line in results if line["row"] == "ADIW-KL" and line["trial"] == 1)
    dead |= {"status": "dead", "reason": "accuracy fell back to chance (10.00%)", "epochs": epochs // 2}
    lost = next(line for line in results if line["row"] == "L2R" and line["trial"] == 2)
    lost |= {"status": "failed", "reason": "out of memory", "accuracy": None, "epochs": 0, "curves": {}}
    lost.pop("weights")
    plan = recipe(list(methods), trials=trials, paper=PAPER, common={"epochs": epochs}, measures=["accuracy", "top5"])
    return write(folder, plan, results, timing)


def _curve(high: float, end: float, epochs: int, random: np.random.Generator) -> list[float]:
    """A curve that rises fast and falls slowly, with less noise after the first quarter."""
    epoch = np.arange(1, epochs + 1)
    rise = high - (high - 60) * np.exp(-epoch / (0.01 * epochs))
    fall = (high - end) * np.clip(epoch / (0.5 * epochs), 0, 1)
    noise = random.normal(0, np.where(epoch < epochs / 4, 0.8, 0.15)) + random.normal(0, 0.15)
    curve: list[float] = (rise - fall + noise).round(2).tolist()
    return curve


def _weights(row: str, random: np.random.Generator) -> dict[str, Any]:
    """The spread of the weights of intact and of mislabelled samples."""
    known = row.startswith(("ADIW", "DIW"))
    spread = {"ADIW-KL": 0.1, "ADIW-LS": 0.3, "ADIW-WA": 0.6}.get(row, 0.5)
    groups = {
        "intact": random.normal(1.6, spread, 36000).clip(0) if known else np.ones(36000),
        "mislabelled": random.exponential(0.08, 24000) if known else np.ones(24000),
    }
    edges = np.linspace(0, 4, 51)
    return {
        "edges": edges.round(4).tolist(),
        "groups": {
            name: {
                "count": len(values),
                "box": np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95]).round(4).tolist(),
                "mean": float(values.mean().round(4)),
                "histogram": np.histogram(values.clip(max=4), edges)[0].tolist(),
            }
            for name, values in groups.items()
        },
    }
