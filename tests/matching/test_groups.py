"""Sums over groups against Python loops."""

from __future__ import annotations

import torch
from torch.testing import assert_close

from adiw.matching.groups import are_few, group_order, group_sum, per_sample, same_group
from tests.simulated_gpu import PretendCuda

GROUP = torch.tensor([2, 0, -1, 2, 0, 2, -1])
VALUES = torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0])


def test_group_sum_is_a_loop_over_groups() -> None:
    expected = [float(VALUES[g == GROUP].sum()) for g in range(4)]
    assert group_sum(VALUES, GROUP, 4).tolist() == expected == [18.0, 0.0, 41.0, 0.0]


def test_group_sum_ignores_excluded_values() -> None:
    values = torch.where(GROUP >= 0, VALUES, float("nan"))
    assert torch.equal(group_sum(values, GROUP, 3), group_sum(VALUES, GROUP, 3))
    values = torch.where(GROUP >= 0, VALUES, float("inf"))
    assert torch.equal(group_sum(values, GROUP, 3), group_sum(VALUES, GROUP, 3))


def test_group_sum_keeps_the_dtype() -> None:
    for dtype in (torch.float32, torch.float64):
        assert group_sum(VALUES.to(dtype), GROUP, 3).dtype == dtype


def test_group_sum_without_included_samples() -> None:
    assert group_sum(torch.zeros(0), torch.zeros(0, dtype=torch.long), 2).tolist() == [0.0, 0.0]
    assert group_sum(VALUES, torch.full((7,), -1), 2).tolist() == [0.0, 0.0]


def test_per_sample_gives_each_sample_the_value_of_its_group() -> None:
    found = per_sample(torch.tensor([5.0, 6.0, 7.0]), GROUP)
    assert found[GROUP >= 0].tolist() == [7.0, 5.0, 7.0, 5.0, 7.0]
    assert bool(found.isfinite().all())


def test_same_group_is_a_double_loop() -> None:
    other = torch.tensor([0, -1, 2])
    found = same_group(GROUP, other)
    for i, left in enumerate(GROUP.tolist()):
        for j, right in enumerate(other.tolist()):
            assert bool(found[i, j]) == (left == right and left >= 0)


def test_group_order_sorts_within_groups() -> None:
    generator = torch.Generator().manual_seed(0)
    group = torch.randint(0, 3, (50,), generator=generator)
    values = torch.randn(50, generator=generator)
    order = group_order(values, group, 3)
    assert sorted(order.tolist()) == list(range(50))
    keys = list(zip(group[order].tolist(), values[order].tolist(), strict=True))
    assert keys == sorted(keys)


def test_group_order_of_one_group_is_a_sort() -> None:
    assert_close(VALUES[group_order(-VALUES, torch.zeros(7, dtype=torch.long), 1)], VALUES.flip(0))


def test_how_many_are_few() -> None:
    """On a CPU sorting is faster for smaller batches than on a GPU, where the number of kernels takes the time."""
    found = [n for n in (256, 257, 1024, 1025) if are_few(torch.zeros(n))]
    on_gpu = [n for n in (256, 257, 1024, 1025) if are_few(torch.zeros(n).as_subclass(PretendCuda))]
    assert (found, on_gpu) == ([256], [256, 257, 1024])
