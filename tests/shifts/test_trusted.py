"""How many trusted samples, of which classes."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from adiw.shifts import NoShift
from adiw.shifts.trusted import draw_per_class, draw_trusted, proportional


@settings(deadline=None, max_examples=50, derandomize=True, database=None)
@given(counts=st.lists(st.integers(0, 30), min_size=1, max_size=8).filter(any), share=st.floats(0, 1))
def test_proportional_sums_and_stays_within_one(counts: list[int], share: float) -> None:
    total = int(share * sum(counts))
    sizes = proportional(total, counts)
    assert sum(sizes) == total
    for size, count in zip(sizes, counts, strict=True):
        assert size <= count
        assert abs(size - total * count / sum(counts)) < 1


def test_draws_are_uniform() -> None:
    """Each of ten samples is among the three drawn with probability 0.3: within four standard deviations."""
    y = torch.arange(10)
    draws = torch.cat([draw_trusted(y, 3, torch.Generator().manual_seed(seed)) for seed in range(2000)])
    sd = (2000 * 0.3 * 0.7) ** 0.5
    assert bool(((draws.bincount() - 600).abs() < 4 * sd).all())


def test_a_draw_that_misses_a_class_is_made_again_by_class() -> None:
    y = torch.arange(1000) % 10
    for seed in range(20):
        drawn = draw_trusted(y, 10, torch.Generator().manual_seed(seed))
        assert y[drawn].sort().values.tolist() == list(range(10))
        assert drawn.tolist() == sorted(drawn.tolist())


def test_a_draw_that_holds_every_class_stays_as_it_was() -> None:
    y = torch.arange(1000) % 10
    for seed in range(20):
        drawn = draw_trusted(y, 200, torch.Generator().manual_seed(seed))
        assert torch.equal(drawn, torch.randperm(1000, generator=torch.Generator().manual_seed(seed))[:200].sort()[0])
        assert len(y[drawn].bincount().unique()) > 1  # not the same number of each


def test_a_draw_too_small_for_all_classes_stays_as_it_was() -> None:
    y = torch.cat([torch.zeros(990), torch.ones(10)]).long()  # in proportion, two are of the first class
    drawn = draw_trusted(y, 2, torch.Generator().manual_seed(0))
    assert torch.equal(drawn, torch.randperm(1000, generator=torch.Generator().manual_seed(0))[:2].sort()[0])


def test_draws_within_classes_are_uniform() -> None:
    y = torch.tensor([1, 0, 1, 0, 1, 1])
    draws = torch.stack([draw_per_class(y, [1, 2], torch.Generator().manual_seed(seed)) for seed in range(2000)])
    assert bool((y[draws].sum(1) == 2).all())
    sd = (2000 * 0.5 * 0.5) ** 0.5  # one of two, and two of four
    assert bool(((draws.flatten().bincount() - 1000).abs() < 4 * sd).all())


def test_data_already_shifted_have_no_trusted_set_unless_asked() -> None:
    y = torch.tensor([0, 1, 1, 0])
    for trusted, count in ((None, 0), (3, 3)):
        shifted = NoShift().apply(None, y, 2, trusted, torch.Generator().manual_seed(0))
        assert len(shifted.trusted) == count
        assert shifted.true_weights is None
        assert torch.equal(shifted.y, y)
