"""ADIW and the baselines: construction, a step, and loading a state."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import torch
from torch import nn

import adiw
from adiw import baselines
from torture import values
from torture.entries.entry import COUNT, GENERATORS, NAME, NUMBER, SETS, THING, Entry, Make, pick
from torture.entries.small import CLASSES, TRAIN, N, batch, method_arguments
from torture.verdict import anything, weights

METHOD_BAD: dict[str, Make] = {
    "model": THING,
    "criterion": pick((*values.ANYTHING, nn.CrossEntropyLoss(), lambda outputs, targets: outputs)),
    "val_set": pick(SETS),
    "num_train": COUNT,
    "forward": pick((*values.ANYTHING, lambda model, batch: None, lambda model, batch: (1, 2))),
    "val_batch": COUNT,
    "generator": pick(GENERATORS),
}
STEP_BAD: dict[str, Make] = {
    "outputs": lambda random: values.tensor(random, torch.rand(N, CLASSES)),
    "targets": lambda random: values.tensor(random),
    "index": lambda random: values.index(random, N, TRAIN),
    "inputs": lambda random: values.tensor(random, torch.rand(N, 2)),
}


def build_and_step(method: Callable[..., Any], **given: Any) -> Any:
    """The weights of a new method after one step with a valid batch."""
    made = method(**given)
    loss = made(**batch())
    return [loss, made.weights, made.state_dict() and 0.0]


def step(method: Callable[..., Any], more: dict[str, Any], **given: Any) -> Any:
    """A bad step between two valid ones: it must not change their result."""
    made = method(**method_arguments(), **more)
    made(**batch())
    try:
        made(**given)
    finally:
        after = [made(**batch()), made.weights]
    return after


def methods() -> list[Entry]:
    extra: dict[str, tuple[dict[str, Any], dict[str, Make]]] = {
        "Uniform": ({}, {}),
        "Random": ({}, {}),
        "Fixed": ({"weights": torch.ones(TRAIN)}, {"weights": lambda r: values.tensor(r, torch.ones(TRAIN))}),
        "L2R": ({}, {}),
        "MWNet": ({"learning_rate": 0.1}, {"learning_rate": NUMBER, "optimizer": THING}),
        "DIW": ({}, {"width": NUMBER, "solver": NAME, "warmup_steps": COUNT}),
    }
    table = {name: (getattr(baselines, name), *extra[name]) for name in extra}
    options: dict[str, Make] = {
        "divergence": pick((*values.NAMES, *adiw.DIVERGENCES, *adiw.DIVERGENCES.values())),
        "transform": pick((*values.ANYTHING, "features", adiw.Features("nowhere"), adiw.Features(), adiw.Features)),
        "steps": COUNT,
        "warmup_steps": COUNT,
        "exact": THING,
        "mean_one": THING,
        "cap": NUMBER,
        "min_ess": NUMBER,
        "val_refresh": COUNT,
        "val_every": COUNT,
        "cache_bytes": COUNT,
    }
    table["ADIW"] = (adiw.ADIW, {"warmup_steps": 0}, options)
    entries = []
    for name, (method, more, bad) in table.items():
        good = partial(lambda more: method_arguments() | more, more)
        entries.append(Entry(name, partial(build_and_step, method), good, METHOD_BAD | bad, weights, 2.0))
        entries.append(Entry(f"a step of {name}", partial(step, method, more), batch, STEP_BAD, weights))
    for divergence in adiw.DIVERGENCES:
        more = {"divergence": divergence, "warmup_steps": 0}
        call = partial(step, adiw.ADIW, more)
        entries.append(Entry(f"a step of ADIW, {divergence}", call, batch, STEP_BAD, weights))
    good = lambda: {"state": adiw.ADIW(**method_arguments()).state_dict()}  # noqa: E731
    entries.append(Entry("load_state_dict", load_state, good, {"state": states}, anything))
    return entries


def states(random: Random) -> Any:
    """The state of a method with a key missing or added, or a value of another shape or type."""
    state = dict(adiw.ADIW(**method_arguments()).state_dict())
    key = random.choice(list(state))
    kind = random.randrange(5)
    if kind == 0:
        return random.choice((*values.ANYTHING, 3))
    if kind == 1:
        del state[key]
    elif kind == 2:
        state["surprise"] = torch.ones(2)
    else:
        state[key] = values.tensor(random) if kind == 3 else random.choice(values.ANYTHING)
    return state


def load_state(state: Any) -> Any:
    made = adiw.ADIW(**method_arguments())
    made.load_state_dict(state)
    return [made(**batch()), made.weights]
