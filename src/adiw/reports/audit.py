"""A label audit: the training samples of a finished run by how little it trusted them."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from adiw.experiments.sealed import read_array, read_json
from adiw.experiments.trust import WARM_UP, least_trusted_first, trust
from adiw.reports.gallery import class_names, name_of
from adiw.reports.grid import no_formula
from adiw.reports.results import Result, load_result
from adiw.reports.run_folders import one_run

Array = NDArray[Any]


@dataclass(frozen=True)
class Audit:
    """A run's samples and what it made of them. Arrays are (n,) in the order of the run, ``order`` ranks them."""

    run: Result
    names: list[str]  # of the labels; empty where they are not known
    order: Array  # least trusted first
    scores: Array
    weights: Array
    mean_weights: Array  # over the history after the warm-up
    history: Array  # (e, n)
    epochs: list[int]
    original: Array  # position in the training set that the shift was applied to
    given: Array
    true: Array | None  # None where nobody knows
    predicted: Array

    def name(self, label: int) -> str:
        return name_of(int(label), self.names)

    def quality(self) -> tuple[float, float] | None:
        """(AUROC, precision at the true number of flips) of calling little trusted samples mislabelled."""
        if self.true is None:
            return None
        levels, flipped = _levels(self.scores, self.weights), self.given != self.true
        return auroc(levels, flipped), precision(levels, flipped)


def load_audit(folder: Path) -> Audit:
    """The audit of the run in this folder; an error in words where there is nothing to rank."""
    run = load_result(one_run(folder))
    weights = _ranking_weights(run)
    history = read_array(run.folder / "weight_history.npy").astype(np.float64)
    epochs = read_json(run.folder / "weight_history.json")["epochs"]
    original, given, true, predicted = read_array(run.folder / "labels.npy")
    if not len(epochs):
        history = np.zeros((0, len(weights)))
    if history.shape != (len(epochs), len(weights)) or len(given) != len(weights):
        raise ValueError(f"{folder}: its weights, their history and its labels are not of one length; run it again")
    scores = trust(history, epochs, weights)
    after = history[np.array(epochs, int) > WARM_UP]
    return Audit(
        run=run,
        names=class_names(run.folder),
        order=least_trusted_first(scores, weights),
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


def _ranking_weights(run: Result) -> Array:
    """The run's last weights, where they rank anything."""
    if run.status == "unfinished":
        raise ValueError(f"the run in {run.folder} has not finished: go on with adiw run --resume")
    if run.status == "dead":
        raise ValueError(f"the run in {run.folder} is dead ({run.reason}): its weights say nothing about the labels")
    if run.method == "val-only":
        raise ValueError(
            "val-only trains on the trusted samples alone and weighs no others: there is nothing to rank"
        )
    weights = run.weights().astype(np.float64)
    if len(weights) == 0 or (weights == weights[0]).all():
        raise ValueError(f"{run.method}: all weights are equal: there is nothing to rank")
    return weights


def auroc(levels: Array, flipped: Array) -> float:
    """The chance that a mislabelled sample ranks before an intact one, where equal levels count half.

    >>> auroc(np.array([0, 0, 1, 2]), np.array([True, False, True, False]))
    0.625
    """
    _, place, counts = np.unique(levels, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    wrong = int(flipped.sum())
    above = ranks[flipped].sum() - wrong * (wrong + 1) / 2
    return float(1 - above / (wrong * (len(levels) - wrong)))


def precision(levels: Array, flipped: Array) -> float:
    """The share of mislabelled among as many lowest ranked as there are; ties at the edge count by their share.

    >>> precision(np.array([0, 1, 1, 2]), np.array([True, True, False, False]))
    0.75
    """
    wanted, found = int(flipped.sum()), 0.0
    edge = np.sort(levels)[wanted - 1]
    before, tied = levels < edge, levels == edge
    found = flipped[before].sum() + (wanted - before.sum()) * flipped[tied].mean()
    return float(found / wanted)


def _levels(scores: Array, weights: Array) -> Array:
    """(n,) ranks in which only samples of equal score and equal last weight are tied."""
    pairs = np.stack([scores, weights], axis=1)
    return np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)


def write_csv(audit: Audit, file: TextIO, top: int | None = None) -> None:
    """A line for each sample, least trusted first; all of them, or the first ``top``.

    Names come from folders and tables of others, and such files are opened in spreadsheets: none begins as a formula.
    """
    truth = ["true", "true_name"] if audit.true is not None else []
    labels = ["given", "given_name", "predicted", "predicted_name", *truth]
    history = [f"epoch_{epoch}" for epoch in audit.epochs]
    writer = csv.writer(file)
    writer.writerow(["rank", "original_index", "index", *labels, "weight", "mean_weight", "trust", *history])
    writer.writerows(_lines(audit, top))


def _lines(audit: Audit, top: int | None) -> Iterator[list[object]]:
    for rank, i in enumerate(audit.order[:top].tolist(), start=1):
        labels = [audit.given[i], audit.predicted[i], *([] if audit.true is None else [audit.true[i]])]
        named = [part for label in labels for part in (int(label), no_formula(audit.name(label)))]
        numbers = [audit.weights[i], audit.mean_weights[i], audit.scores[i], *audit.history[:, i]]
        yield [rank, int(audit.original[i]), i, *named, *(f"{number:.6g}" for number in numbers)]
