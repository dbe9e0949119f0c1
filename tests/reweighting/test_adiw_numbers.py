"""ADIW on arbitrary numbers: loss, gradient and stored weights stay finite; other samples keep their weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator, Tensor, nn
from torch.utils.data import TensorDataset

from adiw import ADIW, DIVERGENCES, Features
from tests.divergences.numbers import hostile, number, variants

NUM_TRAIN = 10
LIMITS: list[dict[str, Any]] = [{}, {"mean_one": True}, {"mean_one": True, "cap": 2.0}, {"cap": 1.5, "min_ess": 0.5}]
TRANSFORMS = {
    "loss": lambda: "loss",
    "features": lambda: Features(),
    "classes": lambda: Features(num_classes=3),
    "prior": lambda: Features(class_prior=torch.tensor([0.0, 1.0, 3.0])),
}


class Echo(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


def first_column(outputs: Tensor, targets: object) -> Tensor:
    return outputs[:, 0]


def make(divergence: Any, transform: str, x_val: Tensor, y_val: Tensor, limits: dict[str, Any]) -> ADIW:
    """The first number of a sample is its loss, the others are its features."""

    def forward(model: nn.Module, batch: Any) -> tuple[Tensor, ...]:
        outputs = model(batch[0])
        return (outputs, batch[1]) if transform == "loss" else (outputs, batch[1], outputs[:, 1:])

    settings = {**limits, "warmup_steps": 0, "generator": Generator().manual_seed(0), "forward": forward}
    chosen = TRANSFORMS[transform]()
    val_set = TensorDataset(x_val, y_val)
    return ADIW(
        Echo(), first_column, val_set, NUM_TRAIN, divergence, transform=chosen, **{"repeats": True, **settings}
    )


@st.composite
def samples(draw: st.DrawFn, most: int, dim: int) -> tuple[Tensor, Tensor]:
    """One to ``most`` samples with a loss, features and a class, which may be unknown."""
    loss = number.filter(lambda x: not 1e31 < abs(x) < float("inf"))  # the mean of larger losses overflows
    row = st.tuples(loss, *[number] * dim)
    x, y = zip(*draw(st.lists(st.tuples(row, st.integers(-1, 3)), min_size=1, max_size=most)), strict=True)
    return torch.tensor(x), torch.tensor(y)


@pytest.mark.parametrize("name", DIVERGENCES)
@hostile
@given(data=st.data())
def test_results_are_finite_and_other_samples_keep_their_weights(name: str, data: st.DataObject) -> None:
    transform = data.draw(st.sampled_from(sorted(TRANSFORMS)))
    dim = 1 if transform == "loss" else 2
    cases = [case for case, size in variants(name) if size == dim]
    case, limits = data.draw(st.sampled_from(cases)), data.draw(st.sampled_from(LIMITS))
    reweight = make(case.divergence, transform, *data.draw(samples(5, dim)), limits)
    for _ in range(3):
        x, y = data.draw(samples(6, dim))
        index = torch.tensor(data.draw(st.lists(st.integers(0, 9), min_size=len(x), max_size=len(x))))
        check_step(reweight, x, y, index, transform, data.draw(st.booleans()))


def check_step(reweight: ADIW, x: Tensor, y: Tensor, index: Tensor, transform: str, half: bool) -> None:
    """One call. In half precision 1e30 is infinite, as when a float16 network overflows."""
    outputs = (x.half() if half else x).requires_grad_()
    before = reweight.weights.clone()
    features = None if transform == "loss" else outputs[:, 1:]
    loss = reweight(outputs, y, index, features=features)
    loss.backward()
    assert outputs.grad is not None
    weights = reweight.weights
    assert bool(loss.isfinite()), loss
    assert bool(outputs.grad.isfinite().all()), outputs.grad
    assert bool((outputs.grad >= 0).all()), outputs.grad
    assert not bool(outputs.grad[~outputs[:, 0].isfinite()].any()), "a loss that is not finite has a weight"
    assert bool((weights.isfinite() & (weights >= 0)).all()), weights
    others = torch.ones(NUM_TRAIN, dtype=torch.bool).index_fill_(0, index, False)
    assert torch.equal(weights[others], before[others])
    for key, value in reweight.estimator.memory.items():
        assert bool(value.isfinite().all()), key
    if reweight.limits.cap is not None:
        assert bool((outputs.grad * len(x) <= reweight.limits.cap * 1.001).all())
