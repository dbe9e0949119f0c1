"""The best rows of a column: the highest mean, and rows that a paired t-test does not distinguish from it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

LEVEL = 0.01
Means = Mapping[int, float]  # trial number -> mean


def best_rows(column: Mapping[str, Means]) -> set[str]:
    """The best rows of a column of trial means at the 1% level; none where the highest mean is of a single trial.

    A row is compared with the highest one if they have two trials in common.

    >>> column = {"a": {0: 88.0, 1: 88.2, 2: 88.1}, "b": {0: 88.1, 1: 87.9, 2: 88.2}, "c": {0: 60, 1: 61, 2: 60.5}}
    >>> sorted(best_rows(column)), best_rows({"a": {0: 88.0}, "b": {0: 70.0}})
    (['a', 'b'], set())
    """
    found = {row: means for row, means in column.items() if means}
    if not found:
        return set()
    top = found[max(found, key=lambda row: statistics.fmean(found[row].values()))]
    return {row for row, means in found.items() if len(means.keys() & top.keys()) > 1 and comparable(top, means)}


def comparable(first: Means, second: Means) -> bool:
    """Whether a paired t-test over the common trials finds no difference at the 1% level.

    Without variance between the differences there is no test: then equal means are comparable and others are not.

    >>> comparable({0: 1.0, 1: 2.0}, {0: 1.0, 1: 2.0}), comparable({0: 1.0, 1: 2.0}, {0: 0.5, 1: 1.5})
    (True, False)
    """
    common = sorted(first.keys() & second.keys())
    differences = [first[trial] - second[trial] for trial in common]
    size = max(abs(means[trial]) for means in (first, second) for trial in common)
    if max(differences) - min(differences) <= 1e-9 * max(size, 1.0):
        return abs(differences[0]) <= 1e-9 * max(size, 1.0)
    from scipy.stats import ttest_rel  # slow to import

    return bool(ttest_rel([first[t] for t in common], [second[t] for t in common]).pvalue >= LEVEL)
