"""Matched batches: groups, and which samples are excluded."""

from __future__ import annotations

import torch
from torch.testing import assert_close

from adiw.matching.batches import MatchedBatches, match

NAN, INF = float("nan"), float("inf")


def two_classes() -> MatchedBatches:
    return match(
        torch.arange(6.0)[:, None],
        torch.arange(5.0)[:, None],
        torch.tensor([0, 1, 0, 1, 1, -1]),
        torch.tensor([1, 0, -1, 1, 1]),
        num_groups=3,
    )


def test_sums_and_counts_are_those_of_each_group() -> None:
    batches = two_classes()
    assert batches.sum_train(batches.z_train[:, 0]).tolist() == [2.0, 8.0, 0.0]
    assert batches.sum_val(batches.z_val[:, 0]).tolist() == [1.0, 7.0, 0.0]
    assert batches.num_train.tolist() == [2.0, 3.0, 1.0]  # an empty group counts as one, to divide by
    assert batches.num_val.tolist() == [1.0, 3.0, 1.0]


def test_same_is_true_within_groups_only() -> None:
    batches = two_classes()
    groups = {"train": batches.group_train.tolist(), "val": batches.group_val.tolist()}
    for left, right in (("train", "val"), ("train", "train"), ("val", "val"), ("val", "train")):
        expected = [[a == b >= 0 for b in groups[right]] for a in groups[left]]
        assert batches.same(left, right).tolist() == expected


def test_without_groups_all_samples_are_in_group_zero() -> None:
    batches = match(torch.zeros(3, 2), torch.zeros(4, 2))
    assert batches.group_train.tolist() == [0] * 3
    assert batches.group_val.tolist() == [0] * 4
    assert batches.num_groups == 1
    assert batches.memory == {}


def test_nonfinite_samples_are_excluded_and_replaced() -> None:
    """In any coordinate, on either side. Their z is replaced, so that no product is nan."""
    z_train = torch.tensor([[1.0, 2.0], [NAN, 2.0], [1.0, INF], [3.0, 4.0]])
    z_val = torch.tensor([[-INF, 0.0], [5.0, 6.0]])
    batches = match(z_train, z_val)
    assert batches.group_train.tolist() == [0, -1, -1, 0]
    assert batches.group_val.tolist() == [-1, 0]
    assert bool(batches.z_train.isfinite().all())
    assert bool(batches.z_val.isfinite().all())
    assert torch.equal(batches.z_train[[0, 3]], z_train[[0, 3]])
    assert bool(z_train[1, 0].isnan()), "the caller's tensor was changed"


def test_large_but_finite_samples_stay() -> None:
    assert match(torch.tensor([[3e38]]), torch.tensor([[-3e38]])).group_train.tolist() == [0]
    most = torch.finfo(torch.float32).max
    batches = match(torch.tensor([[most], [-most], [float("nan")]]), torch.tensor([[-most], [0.0]]))
    assert batches.group_train.tolist() == [0, 0, -1]
    assert batches.group_val.tolist() == [0, 0]


def test_a_group_missing_on_one_side_is_excluded_on_the_other() -> None:
    batches = match(torch.zeros(4, 1), torch.zeros(3, 1), torch.tensor([0, 1, 2, 1]), torch.tensor([1, 3, 1]), 4)
    assert batches.group_train.tolist() == [-1, 1, -1, 1]
    assert batches.group_val.tolist() == [1, -1, 1]


def test_minimum_counts_finite_samples_on_both_sides() -> None:
    """Algorithm 2 needs two samples, and a nan does not count."""
    z_train = torch.tensor([[0.0], [0.0], [0.0], [NAN], [0.0], [0.0]])
    group_train = torch.tensor([0, 0, 1, 1, 2, 2])
    group_val = torch.tensor([0, 0, 1, 1, 2])
    batches = match(z_train, torch.zeros(5, 1), group_train, group_val, 3, minimum=2)
    assert batches.group_train.tolist() == [0, 0, -1, -1, -1, -1]
    assert batches.group_val.tolist() == [0, 0, -1, -1, -1]
    batches = match(z_train, torch.zeros(5, 1), group_train, group_val, 3, minimum=1)
    assert batches.group_train.tolist() == [0, 0, 1, -1, 2, 2]


def test_no_sample_is_included() -> None:
    batches = match(torch.full((2, 1), NAN), torch.zeros(3, 1))
    assert batches.group_train.tolist() == [-1, -1]
    assert batches.group_val.tolist() == [-1, -1, -1]
    assert batches.num_train.tolist() == batches.num_val.tolist() == [1.0]


def test_counts_are_in_the_dtype_of_z() -> None:
    batches = match(torch.zeros(3, 1, dtype=torch.float64), torch.zeros(2, 1, dtype=torch.float64))
    assert batches.num_train.dtype == torch.float64
    assert_close(batches.num_train, torch.tensor([3.0], dtype=torch.float64))
