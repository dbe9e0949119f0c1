"""Accuracy and predictions, against their definitions."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from adiw.experiments.epoch_evaluation import evaluate, in_batches
from tests.engine.small_problem import problem, same


def by_definition(model: nn.Module, x: Tensor, y: Tensor, k: int) -> int:
    """How many samples have fewer than k classes scored above the right one."""
    with torch.no_grad():
        outputs = model.eval()(x)
    above = (outputs > outputs.gather(1, y[:, None])).sum(1)
    return int((above < k).sum())


@pytest.mark.parametrize("classes", [2, 4, 5, 7, 30])
def test_accuracy_is_as_defined(classes: int) -> None:
    model, x, y = problem(classes)
    before = copy.deepcopy(model)
    first, five, loss = evaluate(model, in_batches(x, y, size=7)).sum(0).tolist()
    assert first == by_definition(before, x, y, 1)
    assert five == by_definition(before, x, y, 5)
    assert 0 < first < len(y)
    chances = copy.deepcopy(before).eval()(x).double().softmax(1)
    assert loss == pytest.approx(-chances[torch.arange(len(y)), y].log().sum().item(), rel=1e-5)
    if classes <= 5:
        assert five == len(y)
    assert same(model, before)  # batch norm has not updated its statistics
    assert model.training


def test_batches_cover_every_sample() -> None:
    x, y = torch.arange(10), torch.arange(10)
    sizes = [len(part) for part, _ in in_batches(x, y, size=4)]
    assert sizes == [4, 4, 2]
    assert torch.equal(torch.cat([part for part, _ in in_batches(x, y, size=4)]), x)
