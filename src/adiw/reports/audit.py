"""A label audit: the training samples of a finished run, least trusted first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from numpy.typing import NDArray

from adiw.experiments.checked_io import read_array, read_json
from adiw.experiments.weight_ranking import WARM_UP, lowest_first, weight_score
from adiw.reports.folders import is_sweep, read_run, read_sweep
from adiw.reports.grid import no_formula
from adiw.reports.pictures import class_names, name_of
from adiw.reports.results import Trial

if TYPE_CHECKING:
    from pandas import DataFrame

Array = NDArray[Any]
NAMED = 5  # folders in an error message; further ones are counted


@dataclass(frozen=True)
class Audit:
    """The samples of a run. Arrays are (n,) in the order of the run; ``order`` ranks them."""

    run: Trial
    folder: Path
    names: list[str]  # of the labels; empty where they are not known
    order: Array  # least trusted first
    scores: Array
    weights: Array
    mean_weights: Array  # over the history after the warm-up
    history: Array  # (e, n)
    epochs: list[int]
    original: Array  # 0-based position in the training set before the shift
    given: Array
    true: Array | None  # None where they are not known
    predicted: Array

    def name(self, label: int) -> str:
        return name_of(int(label), self.names)

    def quality(self) -> tuple[float, float] | None:
        """(AUROC, precision at the number of wrong labels) of the ranking; None where true labels are not known."""
        if self.true is None:
            return None
        from sklearn.metrics import roc_auc_score  # slow to import

        # Samples that are equal in both score and last weight are tied.
        pairs, flipped = np.stack([self.scores, self.weights], axis=1), self.given != self.true
        levels = np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)
        area = float("nan") if flipped.all() else float(roc_auc_score(flipped, -levels))
        return area, precision(levels, flipped)


def precision(levels: Array, flipped: Array) -> float:
    """The share of mislabelled samples among the k that rank first, where k is the number of mislabelled samples.

    Samples that are tied for the last of the k places count by the share of mislabelled samples among them.

    levels: (n,) lower ranks first.  flipped: (n,) bool, the mislabelled samples.

    >>> precision(np.array([0, 1, 1, 2]), np.array([True, True, False, False]))
    0.75
    """
    wanted = int(flipped.sum())
    edge = np.sort(levels)[wanted - 1]
    before, tied = levels < edge, levels == edge
    found = flipped[before].sum() + (wanted - before.sum()) * flipped[tied].mean()
    return float(found / wanted)


def load_audit(folder: Path) -> Audit:
    """The audit of the run in this folder; an error if its weights rank nothing."""
    run = read_run(one_run(folder))
    weights = _ranking_weights(run, folder)
    history = read_array(folder / "weight_history.npy").astype(np.float64)
    epochs = read_json(folder / "weight_history.json")["epochs"]
    original, given, true, predicted = read_array(folder / "labels.npy")
    if not len(epochs):
        history = np.zeros((0, len(weights)))
    if history.shape != (len(epochs), len(weights)) or len(given) != len(weights):
        raise ValueError(f"{folder}: its weights, weight history and labels differ in length; run it again")
    scores = weight_score(history, epochs, weights)
    after = history[np.array(epochs, int) > WARM_UP]
    return Audit(
        run=run,
        folder=folder,
        names=class_names(folder),
        order=lowest_first(scores, weights),
        scores=scores,
        weights=weights,
        mean_weights=after.mean(axis=0) if len(after) else weights,
        history=history,
        epochs=epochs,
        original=original,
        given=given,
        true=true if (given != true).any() else None,
        predicted=predicted,
    )


def one_run(folder: Path) -> Path:
    """The folder itself, if it is a run's; otherwise an error that names the runs it holds."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder: name the folder of a finished run")
    if is_sweep(folder):
        trials = [(cell, trial) for cell in read_sweep(folder).cells.values() for trial in cell.trials]
        names = [f"{trial.folder} ({c.row}, {c.column}, trial {trial.number})" for c, trial in trials if trial.folder]
        raise ValueError(f"{folder} is a sweep: {_choose(names)}")
    if not (folder / "config.json").exists():
        names = [str(file.parent) for file in sorted(folder.rglob("config.json"))]
        what = "holds several runs" if names else "is not a run's folder (it has no config.json)"
        raise ValueError(f"{folder} {what}: {_choose(names)}")
    return folder


def _choose(names: list[str]) -> str:
    """
    >>> _choose(["a", "b"])
    'audit one of its runs: a, b'
    """
    if not names:
        return "no run's folder is below it; name the folder of a finished run"
    rest = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"audit one of its runs: {', '.join(names[:NAMED])}{rest}"


def _ranking_weights(run: Trial, folder: Path) -> Array:
    """(n,) the run's last weights; an error if they rank nothing."""
    if run.status == "unfinished":
        raise ValueError(f"the run in {folder} has not finished: continue it with adiw run --resume")
    if run.status == "dead":
        raise ValueError(f"the run in {folder} is dead ({run.reason}): its weights say nothing about the labels")
    if run.method == "val-only":
        raise ValueError("val-only weights only the trusted samples, on which it trains: nothing to rank")
    weights = read_array(folder / "weights.npy").astype(np.float64)
    if len(weights) == 0 or (weights == weights[0]).all():
        raise ValueError(f"{run.method}: all weights are equal: nothing to rank")
    return weights


def ranked(audit: Audit, top: int | None = None) -> DataFrame:
    """A line for each sample, least trusted first; all samples, or the first ``top``."""
    import pandas  # slow to import

    order = audit.order[:top]
    columns = {"rank": np.arange(1, len(order) + 1), "original_index": audit.original[order], "index": order}
    for key, labels in {"given": audit.given, "predicted": audit.predicted, "true": audit.true}.items():
        if labels is not None:
            columns |= {key: labels[order], f"{key}_name": np.array([audit.name(label) for label in labels[order]])}
    columns |= {
        "weight": audit.weights[order],
        "mean_weight": audit.mean_weights[order],
        "trust": audit.scores[order],
    }
    columns |= {f"epoch_{epoch}": row[order] for epoch, row in zip(audit.epochs, audit.history, strict=True)}
    return pandas.DataFrame(columns)


def write_csv(audit: Audit, file: TextIO, top: int | None = None) -> None:
    """The ranked samples as CSV.

    Class names come from users' files, and the CSV file is opened in spreadsheets: no name is written as a formula.
    """
    lines = ranked(audit, top)
    names = [name for name in lines if name.endswith("_name")]
    lines[names] = lines[names].map(no_formula)
    lines.to_csv(file, index=False, float_format="%.6g")
