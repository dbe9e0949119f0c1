"""Limits on a batch of weights hold for any weights, and change the weights no more than needed."""

from __future__ import annotations

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from adiw.matching.weight_limits import (
    NEGLIGIBLE,
    Limits,
    effective_sample_size,
    raise_ess,
    rescale_to_mean_one,
)

# Many zeros, as in practice, and values of very different size, so that a few reach the cap.
weight = st.one_of(st.just(0.0), st.floats(0, 3), st.floats(0, 500))
batches = st.lists(weight, min_size=1, max_size=25).map(lambda w: torch.tensor(w, dtype=torch.float64))
caps = st.one_of(st.none(), st.just(1.0), st.floats(1, 20))


def test_a_negligible_weight_changes_no_mean_and_others_make_no_denormal_gradients() -> None:
    assert torch.finfo(torch.float32).tiny < NEGLIGIBLE * torch.finfo(torch.float32).eps
    assert 1 + NEGLIGIBLE == 1


def ess(weights: Tensor) -> float:
    return float(weights.sum() ** 2 / weights.square().sum())


def can_have_mean_one(weights: Tensor, cap: float | None) -> bool:
    positive = int((weights > 0).sum())
    return positive > 0 and (cap is None or positive * cap >= len(weights))


@given(
    weights=batches,
    cap=caps,
    share=st.floats(0, 1),
    mean_one=st.booleans(),
    precision=st.sampled_from([(torch.float64, 1e-9), (torch.float32, 1e-4)]),
)
@example(torch.zeros(4), 2.0, 0.5, True, (torch.float32, 1e-4))
@example(torch.tensor([2.2251e-313], dtype=torch.float64), 2.0, 0.0, True, (torch.float64, 1e-9))
@example(torch.full((3,), 0.3), 1.0, 1.0, True, (torch.float32, 1e-4))
@settings(deadline=None, derandomize=True, max_examples=300)
def test_every_limit_holds(
    weights: Tensor, cap: float | None, share: float, mean_one: bool, precision: tuple[torch.dtype, float]
) -> None:
    dtype, rounding = precision
    weights = weights.to(dtype)
    limited = Limits(mean_one, cap, share).apply(weights)
    assert limited.dtype == dtype
    assert limited.isfinite().all()
    assert (limited >= -rounding * weights.max()).all()
    if cap is not None:
        assert limited.max() <= cap * (1 + rounding)
    if mean_one and can_have_mean_one(weights, cap):
        assert float(limited.mean()) == pytest.approx(1, rel=rounding)
    if weights.sum() > 1e-3 and share > 0:
        assert ess(limited) >= share * len(weights) * (1 - rounding)


@given(weights=batches, cap=st.floats(1, 20))
@settings(deadline=None, derandomize=True, max_examples=200)
def test_capped_rescaling_is_one_scale_and_a_minimum(weights: Tensor, cap: float) -> None:
    scaled = rescale_to_mean_one(weights, cap)
    if not can_have_mean_one(weights, cap):
        assert torch.equal(scaled, (weights > 0).double() * cap)  # as close to mean one as possible
        return
    free = (scaled < cap * (1 - 1e-9)) & (weights > 1e-100)
    if not free.any():
        return
    scale = (scaled[free] / weights[free]).max()
    torch.testing.assert_close(scaled, (scale * weights).clamp_max(cap), rtol=1e-7, atol=1e-9)


def test_capped_rescaling_of_known_weights() -> None:
    # s = 2: 4 and 6 reach the cap of 3, and 3 + 3 + 2 * (0.5 + 0) + 0 + ... has mean one over seven samples
    weights = torch.tensor([2.0, 0.5, 3.0, 0.0, 0.0, 0.0, 0.0])
    torch.testing.assert_close(rescale_to_mean_one(weights, 3.0), torch.tensor([3.0, 1.0, 3.0, 0, 0, 0, 0]))


def test_mean_one_without_a_cap_keeps_the_proportions() -> None:
    weights = torch.tensor([1.0, 3.0, 0.0, 4.0])
    torch.testing.assert_close(Limits(mean_one=True).apply(weights), weights / 2)


def test_a_cap_alone_does_not_move_the_other_weights() -> None:
    assert Limits(cap=2.0).apply(torch.tensor([0.5, 1.5, 9.0])).tolist() == [0.5, 1.5, 2.0]


def test_without_limits_the_weights_are_the_estimate_itself() -> None:
    weights = torch.tensor([0.0, 70.0, 1e-9])
    assert Limits().apply(weights) is weights


@given(weights=batches, share=st.floats(0.01, 1))
@settings(deadline=None, derandomize=True, max_examples=200)
def test_mixing_changes_no_more_than_needed(weights: Tensor, share: float) -> None:
    if weights.sum() < 1e-3:
        return
    mixed = raise_ess(weights, share)
    assert float(mixed.mean()) == pytest.approx(float(weights.mean()), rel=1e-9)
    if ess(weights) >= share * len(weights) * (1 + 1e-9):
        torch.testing.assert_close(mixed, weights)
    elif ess(weights) < share * len(weights) * (1 - 1e-6):
        assert ess(mixed) == pytest.approx(share * len(weights), rel=1e-6)


def test_effective_sample_size() -> None:
    assert effective_sample_size(torch.tensor([2.0, 2.0, 2.0, 2.0])) == 4
    assert effective_sample_size(torch.tensor([3.0, 1.0])) == pytest.approx(16 / 10)
    assert effective_sample_size(torch.zeros(3)) == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"cap": 0.5}, "cap must be None or at least 1"), ({"min_ess": 1.5}, "min_ess"), ({"min_ess": -0.1}, "min_ess")],
)
def test_invalid_limits(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Limits(**settings)  # type: ignore[arg-type]
