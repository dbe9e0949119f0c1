"""Constructors and tables of settings."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import nn

import adiw
from adiw.experiments.settings import Settings, resolve
from adiw.integrations.checks import count_samples
from adiw.integrations.trackers import open_tracker
from adiw.shifts import SHIFTS, parse
from torture import values
from torture.entries.entry import COUNT, SETS, Entry, Make, of_default, pick
from torture.verdict import anything


def settings() -> list[Entry]:
    """Constructors and tables of settings."""
    entries = []
    for name, divergence in adiw.DIVERGENCES.items():
        fields = dataclasses.fields(divergence)  # type: ignore[arg-type]
        bad = {one.name: of_default(one.default) for one in fields}
        entries.append(Entry(f"divergence {name}", divergence, dict, bad, anything))
    ratios = lambda random: values.tensor(random, torch.ones(3))  # noqa: E731
    features: dict[str, Make] = {
        "layer": pick((*values.NAMES, nn.Linear(2, 2))),
        "class_prior": ratios,
        "num_classes": COUNT,
    }
    entries.append(Entry("Features", adiw.Features, dict, features, anything))
    entries.append(
        Entry(
            "Indexed",
            lambda dataset: len(adiw.Indexed(dataset)) and adiw.Indexed(dataset)[0],
            lambda: {"dataset": [(1, 2)]},
            {"dataset": pick(SETS)},
            anything,
        )
    )
    known = {one.name: of_default(one.default) for one in dataclasses.fields(Settings)}
    known |= {name: pick((*values.NUMBERS, *values.NAMES)) for name in ("width", "epoch", "method", "shift")}
    entries.append(Entry("settings of a run", lambda **given: resolve(given), dict, known, anything, 3.0))
    specs = lambda random: spec(random)  # noqa: E731
    entries.append(
        Entry(
            "a shift",
            shifted,
            lambda: {"spec": "symmetric:0.4"},
            {"spec": specs, "y": values.tensor, "num_classes": COUNT, "trusted": COUNT},
            anything,
            2.0,
        )
    )
    entries.append(
        Entry("count_samples", count_samples, lambda: {"dataset": [1]}, {"dataset": pick(SETS)}, anything, 0.3)
    )
    entries.append(
        Entry("open_tracker", tracker, lambda: {"name": "tensorboard"}, {"name": pick(values.NAMES)}, anything, 0.3)
    )
    return entries


def tracker(name: Any) -> Any:
    return open_tracker(name, Path("nowhere"), {})


def spec(random: Random) -> Any:
    if random.random() < 0.2:
        return random.choice(values.NAMES)
    numbers = ",".join(
        str(random.choice((0.4, -1, 2, "nan", "inf", "", "x", 1e300))) for _ in range(random.randrange(3))
    )
    return f"{random.choice((*SHIFTS, 'pear', ''))}:{numbers}"


def shifted(spec: Any, y: Any = None, num_classes: Any = 3, trusted: Any = 6) -> Any:
    labels = torch.arange(30) % 3 if y is None else y
    x = torch.rand(len(labels), 2) if isinstance(labels, torch.Tensor) and labels.ndim else None
    return parse(spec).apply(x, labels, num_classes, trusted, torch.Generator().manual_seed(0))
