"""The cut-off of a label audit: how many of the least trusted samples to check, calibrated by the trusted samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

QUANTILE = 0.8  # of the trusted losses: below it, training samples are taken to have right labels
# Trusted samples have larger weights in training, and so smaller losses, than other samples with right labels. If a
# share p of them exceeds a bound, about p**POWER of the others do. Both constants were chosen on benchmarks/gauntlet.
POWER = 0.85
LEAST_PRECISION = 0.5  # of a cut-off that is suggested


@dataclass(frozen=True)
class Cutoff:
    """How many of the first samples to check."""

    number: int  # samples before the cut-off
    precision: float  # share of them that is expected to be mislabelled
    wrong: int  # labels that are expected to be wrong in the whole training set

    def __str__(self) -> str:
        return (
            f"Check the first {self.number}: about {self.precision:.0%} of them are expected to be mislabelled. "
            f"About {self.wrong} labels are expected to be wrong in all."
        )


def suggest_cutoff(losses: NDArray[Any], trusted: NDArray[Any]) -> Cutoff | None:
    """A cut-off for mean losses (n,) of training samples, from those of trusted samples (m,); None without evidence.

    The share of right labels is that of training samples below a quantile of the trusted losses, divided by the
    share of trusted samples there. So many samples as there are wrong labels are then before the cut-off, or fewer
    where less than half of them would be mislabelled.

    >>> right, wrong = np.linspace(0, 1, 600), np.linspace(4, 5, 400)
    >>> suggest_cutoff(np.concatenate([right, wrong]), np.linspace(0, 1, 100))  # doctest: +ELLIPSIS
    Cutoff(number=400, precision=0.970..., wrong=400)
    """
    losses, trusted = losses[np.isfinite(losses)], np.sort(trusted[np.isfinite(trusted)])
    n, m = len(losses), len(trusted)
    if not n or not m:
        return None
    bound = np.quantile(trusted, QUANTILE)
    right = min(1.0, float((losses <= bound).mean() / (trusted <= bound).mean()))
    wrong = round((1 - right) * n)
    if wrong == 0:
        return None
    cuts = -np.sort(-losses)[:wrong]
    exceeding = ((m - np.searchsorted(trusted, cuts) + 1) / (m + 1)) ** POWER
    precision = 1 - right * n * exceeding / np.arange(1, wrong + 1)
    enough = np.flatnonzero(precision >= LEAST_PRECISION)
    if not len(enough):
        return None
    number = int(enough[-1]) + 1
    return Cutoff(number, float(precision[number - 1]), wrong)
