"""The default settings of the divergences."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest
import torch
from torch import Generator
from torch.testing import assert_close

from adiw.divergences import (
    KL,
    MMD,
    Divergence,
    Energy,
    Hellinger,
    JensenShannon,
    Power,
    Relative,
    Sliced,
    Squared,
    Wasserstein,
)
from adiw.matching.batches import MatchedBatches, match
from adiw.matching.kernels import typical_distance

DEFAULTS: list[tuple[Divergence, dict[str, Any]]] = [
    (MMD(), {"width": 0.01, "step_size": 0.1, "upper": 50.0, "slack": None, "step": "local", "kernel": "gaussian"}),
    (KL(), {"width": 0.5, "step_size": 0.5, "update": "rescale"}),
    (Squared(), {"width": 0.1, "step_size": 0.01, "penalty": 1e-5}),
    (
        Wasserstein(),
        {"critic": "auto", "scale": "auto", "step_size": 0.03, "penalty": 10.0}
        | {"pretrain": 50, "updates": 3, "learning_rate": 1e-4},
    ),
    (Relative(), {"width": 0.01, "step_size": 0.1, "alpha": 0.2, "penalty": 1e-5}),
    (Power(), {"width": 0.5, "step_size": 0.5, "power": 1.0, "update": "rescale"}),
    (Hellinger(), {"width": "auto", "step_size": 0.01, "power": -0.5, "update": "rescale"}),
    (JensenShannon(), {"width": 0.5, "step_size": 0.5, "update": "rescale"}),
    (Energy(), {"step_size": 0.05, "scale": "auto"}),
    (Sliced(), {"step_size": 0.03, "scale": "auto", "directions": 64}),
]


@pytest.mark.parametrize(("divergence", "expected"), DEFAULTS, ids=lambda value: type(value).__name__)
def test_defaults_are_the_documented_ones(divergence: Divergence, expected: dict[str, Any]) -> None:
    assert asdict(divergence) == expected  # type: ignore[call-overload]


def test_the_side_of_the_parameters() -> None:
    assert {kind.side for kind in (MMD, Wasserstein, Energy, Sliced)} == {"train"}
    assert {kind.side for kind in (KL, Squared, Relative, Power, Hellinger, JensenShannon)} == {"val"}


def scattered() -> MatchedBatches:
    generator = Generator().manual_seed(0)
    z_train, z_val = (torch.randn(size, 1, generator=generator, dtype=torch.float64) for size in (9, 6))
    return match(z_train, z_val)


@pytest.mark.parametrize(
    ("automatic", "fraction"),
    [
        (KL("auto"), 1 / 3),
        (MMD("auto"), 0.007),
        *((kind("auto"), 1 / 3) for kind in (Squared, Relative, Power, Hellinger, JensenShannon)),
    ],
)
def test_an_automatic_width_is_its_fraction_of_the_typical_distance(automatic: Any, fraction: float) -> None:
    batches = scattered()
    named = replace(automatic, width=fraction * float(typical_distance(batches)))
    found, expected = automatic.problem(batches), named.problem(batches)
    assert_close(found.objective(found.initial()), expected.objective(expected.initial()))
    assert_close(found.gradient(found.initial()), expected.gradient(expected.initial()))


@pytest.mark.parametrize("critic", ["exact", "network"])
def test_an_automatic_scale_is_the_typical_distance(critic: Any) -> None:
    batches, ones = scattered(), torch.ones(9, dtype=torch.float64)
    automatic = Wasserstein(critic, scale="auto", pretrain=0)
    named = replace(automatic, scale=float(typical_distance(batches)))
    found = []
    for divergence in (automatic, named):
        memory = divergence.start(1, 1, batches.z_train, Generator().manual_seed(1))
        memory = divergence.learn(batches, ones, memory, Generator().manual_seed(2))
        problem = divergence.problem(replace(batches, memory=memory))
        found.append((problem.objective(ones), problem.gradient(ones)))
    assert_close(*found)
    assert float(found[0][1].abs().max()) > 0
