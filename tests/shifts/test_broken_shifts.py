"""Wrong shifts, each of which the shared suite must reject."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from adiw.shifts import Shift, Shifted, parse
from tests.shifts.suite import (
    CASES,
    NUM_CLASSES,
    TRUSTED,
    N,
    Y,
    apply,
    check_kept_samples,
    check_same_seed_same_result,
    check_trusted_samples,
    check_weights_restore_the_data,
)


@dataclass(frozen=True)
class Fixed:
    """A shift that returns what it was given."""

    result: Shifted

    def apply(
        self, x: Tensor | None, y: Tensor, num_classes: int, trusted: int | None, generator: torch.Generator
    ) -> Shifted:
        return self.result


def weights_upside_down(shifted: Shifted) -> Shifted:
    assert shifted.true_weights is not None
    weights = 1 / shifted.true_weights
    return replace(shifted, true_weights=weights / weights.mean())


def trusted_as_original_indices(shifted: Shifted) -> Shifted:
    return replace(shifted, trusted=shifted.keep[shifted.trusted])


def trusted_flipped(shifted: Shifted) -> Shifted:
    y = shifted.y.clone()
    y[shifted.trusted[0]] = (y[shifted.trusted[0]] + 1) % NUM_CLASSES
    return replace(shifted, y=y)


def trusted_forgotten_in_the_weights(shifted: Shifted) -> Shifted:
    """1 / (1 - rate), as if no sample were trusted; here half of them are."""
    assert shifted.true_weights is not None
    return replace(shifted, true_weights=(shifted.true_weights > 0) / (1 - 0.4))


def keep_shuffled(shifted: Shifted) -> Shifted:
    order = shifted.keep.flip(0)
    return replace(shifted, keep=order, true_y=Y[order], y=Y[order])


BROKEN = [
    ("covariate", weights_upside_down, check_weights_restore_the_data, TRUSTED),
    ("class-prior", weights_upside_down, check_weights_restore_the_data, TRUSTED),
    ("class-conditional", weights_upside_down, check_weights_restore_the_data, TRUSTED),
    ("symmetric", trusted_forgotten_in_the_weights, check_weights_restore_the_data, N // 2),
    ("class-prior", trusted_as_original_indices, check_trusted_samples, TRUSTED),
    ("pair", trusted_flipped, check_trusted_samples, TRUSTED),
    ("none", keep_shuffled, check_kept_samples, TRUSTED),
    ("symmetric", lambda shifted: shifted, check_same_seed_same_result, TRUSTED),  # ignores the generator
]


@pytest.mark.parametrize(("name", "breaks", "check", "trusted"), BROKEN)
def test_broken_shifts_are_rejected(
    name: str, breaks: Callable[[Shifted], Shifted], check: Callable[[Shift], None], trusted: int
) -> None:
    broken = Fixed(breaks(apply(parse(CASES[name]), trusted=trusted)))
    with pytest.raises(AssertionError):
        check(broken)


@pytest.mark.parametrize("name", sorted(CASES.keys() - {"none"}))
def test_a_shift_shifts(name: str) -> None:
    """Without weights the same statistics are far off: so the suite can detect missing weights."""
    shifted = apply(parse(CASES[name]))
    uniform = replace(shifted, true_weights=torch.ones(len(shifted.keep)))
    with pytest.raises(AssertionError):
        check_weights_restore_the_data(Fixed(uniform))
