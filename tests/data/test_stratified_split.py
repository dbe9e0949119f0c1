"""The split of a table or of trusted samples, by class."""

import pytest
import torch

from adiw.data import DataError
from adiw.data.samples import stratified_split


def test_partition_with_class_shares():
    y = torch.tensor([0] * 50 + [1] * 30 + [2] * 20)
    train, test = stratified_split(y, 20, seed=1)
    assert sorted([*train.tolist(), *test.tolist()]) == list(range(100))
    assert y[test].bincount().tolist() == [10, 6, 4]


def test_largest_remainders_fill_the_total():
    y = torch.tensor([0] * 7 + [1] * 8 + [2] * 9)  # quotas 2.04, 2.33, 2.63 for 7 rows
    _, test = stratified_split(y, 7, seed=0)
    assert y[test].bincount().tolist() == [2, 2, 3]


def test_seed_decides_the_rows():
    y = torch.arange(100) % 2
    first, again, other = (stratified_split(y, 20, seed)[1] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_every_class_keeps_a_training_row():
    y = torch.tensor([0, 0, 0, 0, 1])
    train, test = stratified_split(y, 4, seed=0)
    assert y[train].unique().tolist() == [0, 1]
    assert len(test) == 3


def test_too_few_rows():
    with pytest.raises(DataError, match="2 rows in 2 classes"):
        stratified_split(torch.tensor([0, 1]), 1, seed=0)
