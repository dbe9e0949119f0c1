"""Flip rates, where flipped labels go, and the importance formula."""

from __future__ import annotations

import pytest
import torch

from adiw.shifts import Pair, Shifted, Symmetric

N, NUM_CLASSES = 20_000, 10
Y = torch.arange(N) % NUM_CLASSES


def shift(noise: Symmetric | Pair, trusted: int | None) -> Shifted:
    return noise.apply(None, Y, NUM_CLASSES, trusted, torch.Generator().manual_seed(1))


@pytest.mark.parametrize("noise", [Symmetric(0.2), Symmetric(0.5), Pair(0.3), Pair(0.45)])
def test_flip_rate_within_four_standard_deviations(noise: Symmetric | Pair) -> None:
    flipped = shift(noise, trusted=2000).flipped
    free = N - 2000
    sd = (noise.rate * (1 - noise.rate) / free) ** 0.5
    assert abs(flipped.sum().item() / free - noise.rate) < 4 * sd


def test_symmetric_noise_spreads_evenly_over_the_other_classes() -> None:
    shifted = shift(Symmetric(0.5), trusted=0)
    steps = (shifted.y - shifted.true_y) % NUM_CLASSES
    counts = steps[steps > 0].bincount(minlength=NUM_CLASSES)[1:].double()
    share = 1 / (NUM_CLASSES - 1)
    sd = (counts.sum() * share * (1 - share)).sqrt()
    assert bool(((counts - counts.sum() * share).abs() < 4 * sd).all())


def test_pair_noise_moves_to_the_next_class() -> None:
    shifted = shift(Pair(0.5), trusted=0)
    assert set(((shifted.y - shifted.true_y) % NUM_CLASSES).tolist()) == {0, 1}


@pytest.mark.parametrize("noise", [Symmetric(0.4), Pair(0.4)])
def test_true_weights_formula(noise: Symmetric | Pair) -> None:
    shifted = shift(noise, trusted=5000)
    expected = (~shifted.flipped).float() / (1 - 0.4 * (1 - 5000 / N))
    torch.testing.assert_close(shifted.true_weights, expected)


@pytest.mark.parametrize("noise", [Symmetric(0.4), Pair(0.4)])
def test_a_thousand_trusted_by_default(noise: Symmetric | Pair) -> None:
    assert len(shift(noise, trusted=None).trusted) == 1000
    with pytest.raises(ValueError, match="got 1000, the default"):
        noise.apply(None, Y[:50], NUM_CLASSES, None, torch.Generator())


@pytest.mark.parametrize("noise", [Symmetric, Pair])
def test_rate_zero_flips_nothing_and_all_trusted_flips_nothing(noise: type[Symmetric] | type[Pair]) -> None:
    for shifted in (shift(noise(0.0), trusted=0), shift(noise(0.9), trusted=N)):
        assert torch.equal(shifted.y, Y)
        torch.testing.assert_close(shifted.true_weights, torch.ones(N))


@pytest.mark.parametrize("noise", [Symmetric, Pair])
@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5, float("nan")])
def test_rate_outside_its_range(noise: type[Symmetric] | type[Pair], rate: float) -> None:
    with pytest.raises(ValueError, match="expected 0 <= rate < 1"):
        noise(rate)
