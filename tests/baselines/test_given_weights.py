"""Uniform, Random and Fixed: the baselines that do not use the validation set."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from adiw.baselines import Fixed, Random, Uniform
from adiw.baselines.given_weights import rectified_gaussian
from tests.baselines.suite import BATCH, N, X, Y, make, make_model, one_step

INDEX = torch.arange(BATCH)


def test_uniform_is_the_plain_mean() -> None:
    model = make_model()
    reweight = make(Uniform, model)
    plain = nn.functional.cross_entropy(model(X[INDEX]), Y[INDEX])
    torch.testing.assert_close(one_step(reweight, model, INDEX), plain)
    assert torch.equal(reweight.weights, torch.ones(N))


def test_random_weights_are_rectified_gaussians_with_mean_one() -> None:
    weights = rectified_gaussian(100_000, torch.zeros(()).double(), torch.Generator().manual_seed(0))
    assert float(weights.mean()) == pytest.approx(1, rel=1e-12)
    # E max(0, g) = 1 / sqrt(2 pi); half are zero, and E w^2 = pi. Bounds of four standard errors.
    assert float((weights == 0).double().mean()) == pytest.approx(0.5, abs=4 * 0.5 / 100_000**0.5)
    square = weights.square()
    assert float(square.mean()) == pytest.approx(torch.pi, abs=4 * float(square.std()) / 100_000**0.5)


def test_random_weights_are_fresh_in_each_batch_and_follow_the_generator() -> None:
    model = make_model()
    reweight, again, other = make(Random, model, seed=5), make(Random, model, seed=5), make(Random, model, seed=6)
    seen = []
    for _ in range(2):
        one_step(reweight, model, INDEX)
        one_step(again, model, INDEX)
        seen.append(reweight.weights.clone())
        assert torch.equal(reweight.weights, again.weights)
    one_step(other, model, INDEX)
    assert not torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[0], other.weights)


def test_no_positive_draw_means_uniform() -> None:
    generators = (torch.Generator().manual_seed(seed) for seed in range(8))
    drawn = [float(rectified_gaussian(1, torch.zeros(()), generator)) for generator in generators]
    assert drawn == [1.0] * 8  # a batch of one weighs one, whether its draw is positive or not


def test_fixed_weights_weight_the_loss_and_do_not_change() -> None:
    model = make_model()
    given = torch.rand(N, generator=torch.Generator().manual_seed(0))
    reweight = make(Fixed, model, weights=given)
    index = torch.tensor([4, 8, 4])
    losses = nn.functional.cross_entropy(model(X[index]), Y[index], reduction="none")
    torch.testing.assert_close(one_step(reweight, model, index), (given[index] * losses).mean())
    assert torch.equal(reweight.weights, given)
    given.zero_()  # the method has a copy
    assert bool(reweight.weights.any())


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (torch.ones(N - 1), rf"one number per training sample, \({N},\), got \({N - 1},\)"),
        (torch.ones(N, 1), "one number per training sample"),
        (torch.ones(N).index_fill(0, torch.tensor([7]), -2.0), "sample 7 has -2.0"),
        (torch.ones(N).index_fill(0, torch.tensor([9]), float("nan")), "sample 9 has nan"),
    ],
)
def test_fixed_weights_are_checked(weights: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(Fixed, make_model(), weights=weights)


def test_fixed_weights_are_a_tensor() -> None:
    with pytest.raises(ValueError, match=rf"weights must be one number per training sample, \({N},\), got list"):
        make(Fixed, make_model(), weights=[1.0] * N)
