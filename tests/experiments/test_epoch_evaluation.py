"""Accuracy and predictions, against their definitions."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from adiw.data import Samples
from adiw.experiments.epoch_evaluation import BATCH, evaluate, read
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
    first, five, loss = evaluate(model, zip(x.split(7), y.split(7), strict=True)).sum(0).tolist()
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
    samples = Samples(torch.arange(2.0 * BATCH + 2)[:, None], torch.zeros(2 * BATCH + 2, dtype=torch.int64))
    found = [x for x, _ in read(samples, torch.device("cpu"), workers=0)]
    assert [len(x) for x in found] == [BATCH, BATCH, 2]
    assert torch.equal(torch.cat(found), samples.x)
