"""Functions of tensors: estimates, projections, limits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import adiw
from adiw import projections
from torture import values
from torture.entries.entry import COUNT, GENERATORS, NUMBER, THING, Entry, Make, pick
from torture.verdict import anything, weights


def tensors() -> list[Entry]:
    """Functions of tensors."""
    z = torch.tensor([0.1, 0.3, 2.0, 0.2])
    like = partial(lambda z, random: values.tensor(random, z), z)
    entries = [
        Entry(
            f"estimate_weights, {name}",
            lambda **given: adiw.estimate_weights(**given)[0],
            partial(lambda name: {"z_train": z, "z_val": z[:3], "divergence": name}, name),
            {
                "z_train": like,
                "z_val": like,
                "divergence": pick((*values.NAMES, *adiw.DIVERGENCES.values())),
                "steps": COUNT,
                "state": lambda random: random.choice((adiw.State(values.tensor(random, z)), *values.ANYTHING)),
                "generator": pick(GENERATORS),
            },
            weights,
        )
        for name in adiw.DIVERGENCES
    ]
    ones = torch.ones(4)
    for name, more in {
        "non_negative": {},
        "box": {"upper": 2.0},
        "box_mean_band": {"upper": 2.0, "low": 0.5, "high": 1.5},
        "simplex": {"total": 1.0},
        "weighted_simplex": {"a": ones, "total": 1.0},
        "clamp_rescale": {"a": ones},
    }.items():
        bad: dict[str, Make] = {key: NUMBER for key in more if key != "a"}
        call = partial(projected, getattr(projections, name))
        bad |= {"v": like} | ({"a": partial(lambda o, random: values.tensor(random, o), ones)} if "a" in more else {})
        good = partial(lambda more: {"v": z} | more, more)
        entries.append(Entry(name, call, good, bad, weights))
    labels = torch.tensor([0, 1, 1])
    entries.append(
        Entry(
            "class_prior_ratio",
            adiw.class_prior_ratio,
            lambda: {"train_labels": labels, "test_labels": labels, "num_classes": 2},
            {"train_labels": values.tensor, "test_labels": values.tensor, "num_classes": COUNT},
            weights,
        )
    )
    limits = {"mean_one": True, "cap": 3.0, "min_ess": 0.3, "weights": z}
    bad = {"mean_one": THING, "cap": NUMBER, "min_ess": NUMBER, "weights": like}
    apply = lambda weights, **given: adiw.Limits(**given).apply(weights)  # noqa: E731
    entries.append(Entry("Limits", apply, lambda: dict(limits), bad, anything))
    return entries


def projected(project: Callable[..., torch.Tensor], **given: Any) -> Any:
    """The projection; None, which is not checked, for numbers that are not finite and for negative coefficients."""
    found = project(**given)
    sound = [bool(value.isfinite().all()) for value in given.values() if isinstance(value, torch.Tensor)]
    return found if all(sound) and bool((given.get("a", found) >= 0).all()) else None
