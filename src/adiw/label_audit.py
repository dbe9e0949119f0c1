"""A label audit: training samples ranked by their mean loss, as columns for a table, a CSV file and a page."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from adiw.audit_cutoff import Cutoff, Losses, suggest_cutoff

Array = NDArray[Any]

CONFIDENT = 0.8  # probability from which on a predicted label is suggested
DUPLICATE = 0.05  # of the median distance between samples: nearer ones are near duplicates


@dataclass(frozen=True)
class Audit:
    """The samples of a training set. Arrays are (n,) in its order; ``order`` ranks them, the least trusted first."""

    losses: Array  # the mean loss over the training passes and a last pass
    given: Array  # labels, or targets of a regression
    predicted: Array | None = None  # by the trained network; None where it is not a class or a number
    confidence: Array | None = None  # probability of the predicted class; None where targets are not classes
    weights: Array | None = None  # the last weights
    is_trusted: Array | None = None  # bool, the trusted samples of the training set, which are not ranked
    unseen: Array | None = None  # losses of networks that were not trained on the sample, nan where unknown
    trusted: Losses | None = None  # of the trusted samples that were trained on; None if there are none
    neighbour: Array | None = None  # the nearest sample with another label, -1 where it was not computed
    distance: Array | None = None  # to it, divided by the median distance between samples
    true: Array | None = None  # the true labels, where a simulated shift changed them
    source: Array | None = None  # the number of each sample in ``numbering``; None for its position
    numbering: str = "position in the training set, from 0"
    names: Sequence[str] = ()  # of the classes
    columns: Mapping[int, Mapping[str, str]] = field(default_factory=dict)  # position -> what the sample is
    more: Mapping[str, Array] = field(default_factory=dict)  # further columns of numbers, (n,) each

    def __str__(self) -> str:
        what = "labels" if self.classes else "targets"
        return f"{len(self.order)} {what} ranked, the least trusted first. {self.advice}"

    @property
    def classes(self) -> bool:
        """Whether the targets are classes."""
        return self.given.dtype.kind in "iu"

    @property
    def trust(self) -> Array:
        """(n,) exp(-mean loss), for cross-entropy the geometric mean of the probability of the given label.

        Losses of other targets are first divided by their median, which makes them comparable with one.
        """
        scale = 1.0 if self.classes else float(np.nanmedian(self.losses)) or 1.0
        trust: Array = np.exp(-self.losses / scale)
        return trust

    @property
    def order(self) -> Array:
        """(n,) positions, the largest mean loss first, equal ones by position; samples without a loss come last."""
        order: Array = np.argsort(np.where(np.isnan(self.losses), np.inf, -self.losses), kind="stable")
        if self.is_trusted is not None:  # their labels are right
            order = order[~self.is_trusted[order]]
        return order

    @property
    def cutoff(self) -> Cutoff | None:
        """How many of the first samples to check; None if the trusted samples give no evidence of wrong labels."""
        if self.trusted is None:
            return None
        order = self.order[np.isfinite(self.losses[self.order])]
        unseen = self.losses if self.unseen is None else self.unseen
        train = Losses(unseen[order], self.given[order] if self.classes else None)
        return suggest_cutoff(self.losses[order], train, self.trusted)

    @property
    def advice(self) -> str:
        """How many samples to check, or why that is not known."""
        if self.trusted is None:
            why = "the trusted samples were not trained on, so their losses are not comparable"
        elif not len(self.trusted.unseen):
            why = (
                "to compare losses by a network that was not trained on the sample, inputs must be numbers or "
                "images, or the first epoch must have 100 steps or more"
            )
        elif (cutoff := self.cutoff) is not None:
            return str(cutoff)
        else:
            count = len(self.trusted.unseen)
            why = f"the losses of {count} trusted samples are no clear evidence of wrong labels. If there are some, "
            why += "they come first"
        return f"No cut-off is suggested: {why}."

    @property
    def suggested(self) -> Array | None:
        """(n,) the predicted label where it is another one and the network is confident, -1 elsewhere."""
        if self.predicted is None or self.confidence is None:
            return None
        chosen = (self.predicted != self.given) & (self.confidence >= CONFIDENT)
        suggested: Array = np.where(chosen, self.predicted, -1)
        return suggested

    def name(self, label: Any) -> str:
        """The name of a class, its number where it has none, and "" for -1; a target as a number."""
        if not self.classes:
            return f"{float(label):.6g}"
        label = int(label)
        return "" if label < 0 else str(self.names[label]) if label < len(self.names) else str(label)

    def quality(self) -> tuple[float, float] | None:
        """(AUROC, precision at the number of wrong labels) of the ranking; None where true labels are not known."""
        if self.true is None:
            return None
        order = self.order
        return ranking_quality(np.nan_to_num(self.losses[order]), (self.given != self.true)[order])

    def table(self, top: int | None = None) -> dict[str, list[Any]]:
        """The columns of the first ``top`` samples, or of all: the lines of audit.csv."""
        order, cutoff = self.order[:top], self.cutoff
        number = 0 if cutoff is None else cutoff.number
        found: dict[str, list[Any]] = {
            "rank": list(range(1, len(order) + 1)),
            "check": ["yes" if rank < number else "" for rank in range(len(order))],
            "number": (order if self.source is None else self.source[order]).tolist(),
            "numbering": [self.numbering] * len(order),
            "index": order.tolist(),
        }
        kinds = {"given": self.given, "predicted": self.predicted, "suggested": self.suggested, "true": self.true}
        for key, labels in kinds.items():
            if labels is not None:
                found[key] = ["" if self.classes and label < 0 else label for label in labels[order].tolist()]
            if labels is not None and self.classes:
                found[f"{key}_name"] = [self.name(label) for label in labels[order]]
        shown = {"confidence": self.confidence, "trust": self.trust, "mean_loss": self.losses, "weight": self.weights}
        shown |= dict(self.more)
        found |= {key: values[order].astype(float).tolist() for key, values in shown.items() if values is not None}
        found |= self._neighbours(order)
        for name in dict.fromkeys(name for i in order.tolist() for name in self.columns.get(i, ())):
            found[f"column {name}"] = [self.columns.get(i, {}).get(name, "") for i in order.tolist()]
        return found

    def _neighbours(self, order: Array) -> dict[str, list[Any]]:
        """The nearest sample with another label, its label, its distance, and whether it is a near duplicate."""
        if self.neighbour is None or self.distance is None:
            return {}
        near, distance = self.neighbour[order].tolist(), self.distance[order].tolist()
        number = np.arange(len(self.given)) if self.source is None else self.source
        return {
            "neighbour": [int(number[i]) if i >= 0 else "" for i in near],
            "neighbour_label": [self.name(self.given[i]) if i >= 0 else "" for i in near],
            "neighbour_distance": [d if i >= 0 else "" for i, d in zip(near, distance, strict=True)],
            "near_duplicate": ["yes" if d <= DUPLICATE else "" for d in distance],  # not for nan
        }

    def to_csv(self, file: TextIO, top: int | None = None) -> None:
        """Write ``table`` as CSV. No text is written as a formula: the file is opened in spreadsheets."""
        table = self.table(top)
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(no_formula(name) for name in table)
        for line in zip(*table.values(), strict=True):
            writer.writerow(f"{v:.6g}" if isinstance(v, float) else no_formula(v) for v in line)

    def save(self, folder: str | Path, top: int | None = None, title: str = "Label audit") -> None:
        """Write audit.csv with all samples and audit.html, a page with the first ones, into a folder."""
        reports = import_module("adiw.reports.audit")  # a later layer, which needs the packages of adiw[cli]
        reports.save(self, Path(folder), top, title)


def ranking_quality(losses: Array, wrong: Array) -> tuple[float, float]:
    """(AUROC, precision at the number of wrong labels) of a ranking by loss, the largest first; ties count by halves.

    The precision is the share of wrong labels among the k largest losses, where k is the number of wrong labels.
    Samples that are tied for the last of the k places count by the share of wrong labels among them.

    >>> ranking_quality(np.array([3.0, 2.0, 2.0, 1.0]), np.array([True, True, False, False]))
    (0.875, 0.75)
    """
    k = int(wrong.sum())
    levels = np.unique(losses, return_inverse=True)[1].reshape(-1)
    counts = np.bincount(levels)
    rank = (np.cumsum(counts) - (counts - 1) / 2)[levels]
    pairs = k * (len(wrong) - k)
    area = float((rank[wrong].sum() - k * (k + 1) / 2) / pairs) if pairs else float("nan")
    edge = np.sort(losses)[len(losses) - k] if k else np.inf
    before, tied = losses > edge, losses == edge
    found = wrong[before].sum() + (k - before.sum()) * wrong[tied].mean() if k else 0
    return area, float(found / k) if k else float("nan")


def no_formula(value: Any) -> str:
    """The value as text that a spreadsheet does not evaluate: a quote is put before a formula, not before a number.

    >>> no_formula("=1+1"), no_formula("-1"), no_formula("-"), no_formula("cat")
    ("'=1+1", '-1', '-', 'cat')
    """
    text = str(value)
    if len(text) < 2 or text[0] not in "=+-@\t\r":
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text
