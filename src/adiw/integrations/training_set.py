"""What a framework's training loader must give: samples with fixed numbers, as many as at the start."""

from __future__ import annotations

from typing import Any

from adiw.integrations.method import Method
from adiw.reweighting.indexed import Indexed
from adiw.reweighting.values_by_index import REPEATS


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


def check_length(method: Method, dataset: Any) -> None:
    """Refuse a training set whose length has changed since training started: its numbers may mean other samples."""
    expected, found = len(method.weights), count_samples(dataset)
    if found != expected:
        raise ValueError(
            f"the training set has {found} samples, but had {expected} when training started: weights belong to "
            "samples by their number, so go on with the same set, or begin anew with a new method"
        )


def check_repeats(method: Method, loader: Any) -> None:
    """Refuse a loader whose sampler draws samples more than once, unless the method allows it."""
    sampler = _sampler(loader)
    longer = hasattr(sampler, "__len__") and len(sampler) > len(loader.dataset)
    if (longer or getattr(sampler, "replacement", False)) and not method.weight_state.repeats:
        raise ValueError(f"{type(sampler).__name__} repeats samples: {REPEATS}")


def _sampler(loader: Any) -> Any:
    """The sampler of single samples, also below what accelerate puts around it."""
    batches = loader.batch_sampler
    while hasattr(batches, "batch_sampler"):
        batches = batches.batch_sampler
    return getattr(batches, "sampler", loader.sampler)
