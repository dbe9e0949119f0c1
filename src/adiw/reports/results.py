"""Reading the folders that runs leave behind."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adiw.experiments.sealed import read_array, read_json, read_lines

# The order that methods are shown in: from those that know nothing to the one that knows the truth.
METHOD_ORDER = (
    *("uniform", "val-only", "random", "l2r", "mw-net", "diw"),
    *("two-step-kmm", "two-step-kliep", "two-step-lsif"),
    *("adiw-km", "adiw-kl", "adiw-ls", "adiw-wa", "oracle"),
)


@dataclass(frozen=True)
class Result:
    """One run: its settings, how it ended, and its epochs."""

    folder: Path
    settings: dict[str, Any]
    status: str  # "done", "dead", or "unfinished" when there is no result yet
    reason: str | None
    accuracy: float
    seconds_per_epoch: float
    metrics: list[dict[str, Any]]

    @property
    def method(self) -> str:
        return str(self.settings["method"])

    def weights(self) -> NDArray[np.float32]:
        """(n,) last weight of every training sample."""
        weights: NDArray[np.float32] = read_array(self.folder / "weights.npy")
        return weights

    def flipped(self) -> NDArray[np.bool_]:
        """(n,) whether the label of each training sample was changed by the shift."""
        _, given, true, _ = read_array(self.folder / "labels.npy")
        flipped: NDArray[np.bool_] = given != true
        return flipped


@dataclass(frozen=True)
class Row:
    """A method's line in a table: the mean over its finished seeds, and what did not finish."""

    method: str
    accuracies: list[float]
    seconds_per_epoch: float
    dead: int
    unfinished: int

    @property
    def mean(self) -> float:
        return statistics.fmean(self.accuracies) if self.accuracies else float("nan")

    @property
    def std(self) -> float:
        return statistics.stdev(self.accuracies) if len(self.accuracies) > 1 else float("nan")

    @property
    def note(self) -> str:
        """What a reader must know besides the mean; empty when all seeds finished."""
        parts = [f"{count} {kind}" for count, kind in ((self.dead, "dead"), (self.unfinished, "unfinished")) if count]
        return ", ".join(parts)


def load_result(folder: Path) -> Result:
    """The run in this folder, finished or not."""
    settings, metrics = read_json(folder / "config.json"), read_lines(folder / "metrics.jsonl")
    file = folder / "result.json"
    found: dict[str, Any] = read_json(file) if file.exists() else {"status": "unfinished"}
    if not all(isinstance(content, dict) for content in (settings, found, *metrics)):
        raise ValueError(f"{folder}: its config.json, metrics.jsonl or result.json is not one of ours; run it again")
    accuracy, seconds = (found.get(key) for key in ("accuracy", "seconds_per_epoch"))
    return Result(
        folder,
        settings,
        found["status"],
        found.get("reason"),
        float("nan") if accuracy is None else accuracy,
        float("nan") if seconds is None else seconds,
        metrics,
    )


def load_results(root: Path) -> list[Result]:
    """All runs below ``root``, sorted by folder.

    An error when there is none, or when ``root`` does not exist.
    """
    folders = sorted(file.parent for file in root.rglob("config.json"))
    if not folders:
        raise FileNotFoundError(f"no runs found below {root}: a run's folder holds a config.json")
    return [load_result(folder) for folder in folders]


def by_method(results: Iterable[Result], order: Iterable[str]) -> list[Row]:
    """A row for each method, in ``order``; methods that are not in it come last, by name."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.method, []).append(result)
    wanted = [name for name in order if name in groups]
    rows = []
    for name in wanted + sorted(set(groups) - set(wanted)):
        done = [result for result in groups[name] if result.status == "done"]
        rows.append(
            Row(
                name,
                [result.accuracy for result in done],
                statistics.fmean(result.seconds_per_epoch for result in done) if done else float("nan"),
                sum(result.status == "dead" for result in groups[name]),
                sum(result.status == "unfinished" for result in groups[name]),
            )
        )
    return rows
