"""What the Lightning and Hugging Face integrations require of a weighting method and of the training DataLoader."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from torch import nn

from adiw.baselines.baseline import Baseline
from adiw.reweighting.adiw import ADIW
from adiw.reweighting.indexed_with_trusted import TrustedSamples, find_indexed, is_map_style
from adiw.reweighting.sample_index import REPEATS

WeightingMethod = ADIW | Baseline


def check_method(method: Any, source: str) -> Any:
    """Return the method, or raise an error that names the user's function ``source`` if it is not one."""
    if not isinstance(method, nn.Module) or not hasattr(method, "weight_state"):
        raise TypeError(f"{source} must return a weighting method such as ADIW(...), got {type(method).__name__}")
    return method


def weight_metrics(method: WeightingMethod) -> dict[str, float]:
    """The summary of the weights as metrics to log: "weights/ess" and so on, without those that are undefined."""
    fields = asdict(method.summary())
    values = {f"weights/{name}": float(fields[name]) for name in fields if name not in ("steps", "alarms", "groups")}
    return {name: value for name, value in values.items() if not math.isnan(value)}


def joined_samples(dataset: Any) -> TrustedSamples | None:
    """The trusted samples that ``adiw.Indexed(train_set, trusted)`` joined to a training set; None without them."""
    indexed = find_indexed(dataset)
    return None if indexed is None else indexed.joined


def is_stream(dataset: Any) -> bool:
    """Whether a training set has no index: samples can only be read in their order."""
    indexed = find_indexed(dataset)
    return indexed is None and hasattr(dataset, "__iter__") and not is_map_style(dataset)


def count_samples(dataset: Any) -> int | None:
    """The number of indices of a training set: the length of its ``adiw.Indexed``, or its own; None of a stream."""
    whole = find_indexed(dataset) or dataset
    if is_stream(whole):
        return None
    if not is_map_style(whole):
        raise TypeError(
            "the training set must have __len__ and __getitem__, or __iter__ for a stream without an index, got "
            f"{type(whole).__name__}"
        )
    return len(whole)


def check_length(method: WeightingMethod, dataset: Any) -> None:
    """Raise an error if the length of the training set has changed: an index may then mean another sample."""
    expected, found = len(method.weights), count_samples(dataset)
    if method.weight_state.is_stream:
        return
    if found is None:
        raise ValueError(f"a stream has no index: make the method with num_train=None, got {expected}")
    if found != expected:
        raise ValueError(
            f"the training set has {found} samples, but had {expected} when training started: each sample keeps its "
            "weight under its index, so continue with the same set, or start again with a new method"
        )


def check_repeats(method: WeightingMethod, loader: Any) -> None:
    """Raise an error if the sampler draws samples more than once, unless the method allows it."""
    if method.weight_state.is_stream:
        return
    sampler = _sampler(loader)
    longer = hasattr(sampler, "__len__") and len(sampler) > len(loader.dataset)
    if (longer or getattr(sampler, "replacement", False)) and not method.weight_state.repeats:
        raise ValueError(f"{type(sampler).__name__} repeats samples: {REPEATS}")


def _sampler(loader: Any) -> Any:
    """The loader's sampler, also inside the batch samplers that accelerate wraps around it."""
    batch_sampler = loader.batch_sampler
    while hasattr(batch_sampler, "batch_sampler"):
        batch_sampler = batch_sampler.batch_sampler
    return getattr(batch_sampler, "sampler", loader.sampler)
