"""What a framework's training loader must give: samples with fixed numbers, as many as at the start."""

from __future__ import annotations

import warnings
from typing import Any

from adiw.indexed import Indexed


def numbered_part(dataset: Any) -> Indexed | None:
    """The ``adiw.Indexed`` in a data set, also below ``Subset`` and the like; None when there is none.

    >>> from torch.utils.data import Subset
    >>> len(numbered_part(Subset(Indexed([("a", 0), ("b", 1)]), [1])))
    2
    """
    while dataset is not None and not isinstance(dataset, Indexed):
        dataset = getattr(dataset, "dataset", None)
    return dataset


def count_samples(dataset: Any) -> int:
    """How many numbers the samples of a training set have."""
    whole = numbered_part(dataset) or dataset
    if not hasattr(whole, "__len__") or not hasattr(whole, "__getitem__"):
        raise TypeError(
            f"the training set must have a length and items by number, got {type(whole).__name__}: "
            "weights are kept per sample, so samples need fixed numbers"
        )
    return len(whole)


def check_length(expected: int, found: int, since: str) -> None:
    """Refuse a training set whose length has changed ``since`` then: its numbers may mean other samples."""
    if found != expected:
        raise ValueError(
            f"the training set has {found} samples, but had {expected} {since}: weights belong to samples by their "
            "number, so go on with the same set, or begin anew without the old weights"
        )


def remark_on_repeats(loader: Any) -> None:
    """Warn when a loader's sampler may draw a sample more than once: it works, but one should know how."""
    sampler = getattr(loader.batch_sampler, "sampler", loader.sampler)  # where accelerate puts it
    longer = hasattr(sampler, "__len__") and len(sampler) > len(loader.dataset)
    if longer or getattr(sampler, "replacement", False):
        warnings.warn(
            f"{type(sampler).__name__} may repeat samples: one that is twice in a batch keeps the mean of its "
            "weights, and the warm-up ends after as many samples as the training set has, not after each was seen",
            stacklevel=2,
        )
