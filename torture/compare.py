"""Compare the folders of two runs: every file bit for bit, except times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from adiw.engine.checkpoint import NAME, load
from adiw.experiments.run import FILES

TIMES = ("timing.jsonl", "result.json")  # contain seconds; the result is compared without them


def differences(expected: Path, found: Path) -> list[str]:
    """One line for each difference between the two folders."""
    lines = [
        f"{name} differs" for name in FILES if name not in TIMES and _bytes(expected / name) != _bytes(found / name)
    ]
    if _result(expected) != _result(found):
        lines.append("result.json differs")
    states = [load(folder, torch.device("cpu")) or {} for folder in (expected, found)]
    for state in states:
        state.pop("timing", None)
    return lines + [f"{NAME} differs at {place}" for place in unequal(*states)]


def unequal(a: Any, b: Any, place: str = "") -> list[str]:
    """The paths at which two nested values differ; tensors are compared bit for bit."""
    if type(a) is not type(b):
        return [place]
    if isinstance(a, dict):
        if list(a) != list(b):
            return [place]
        return [found for key in a for found in unequal(a[key], b[key], f"{place}/{key}")]
    if isinstance(a, list | tuple):
        if len(a) != len(b):
            return [place]
        return [found for k, pair in enumerate(zip(a, b, strict=True)) for found in unequal(*pair, f"{place}/{k}")]
    if isinstance(a, torch.Tensor):
        same = a.dtype == b.dtype and a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()
        return [] if same else [place]
    return [] if a == b or a != a else [place]


def _bytes(file: Path) -> bytes | None:
    return file.read_bytes() if file.exists() else None


def _result(folder: Path) -> Any:
    result = json.loads((folder / "result.json").read_text())
    return {key: value for key, value in result.items() if key != "seconds_per_epoch"}
