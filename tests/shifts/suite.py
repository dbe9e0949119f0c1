"""The checks that every shift must pass, and one case per name in the table."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from adiw.shifts import Shift, Shifted

CASES = {
    "none": "none",
    "symmetric": "symmetric:0.4",
    "pair": "pair:0.3",
    "class-prior": "class-prior:0.5,20",
    "covariate": "covariate:2.0",
    "class-conditional": "class-conditional:2.0",
}
N, NUM_CLASSES, TRUSTED = 20_000, 5, 500
SIGMAS = 4  # every statistical bound below is this many standard errors, at a fixed seed


def make_data() -> tuple[Tensor, Tensor]:
    """Unbalanced labels, and inputs (n, 2, 3) with one wide direction and a mean that follows the class."""
    generator = torch.Generator().manual_seed(7)
    y = torch.multinomial(torch.tensor([0.3, 0.25, 0.2, 0.15, 0.1]), N, replacement=True, generator=generator)
    x = torch.randn(N, 6, generator=generator) * torch.tensor([3.0, 1.0, 1.0, 1.0, 0.5, 0.5])
    x[:, 1] += y
    return x.reshape(N, 2, 3), y


X, Y = make_data()


def apply(shift: Shift, seed: int = 0, trusted: int | None = TRUSTED) -> Shifted:
    return shift.apply(X, Y, NUM_CLASSES, trusted, torch.Generator().manual_seed(seed))


def weighted_mean_is_that_of_the_data(weights: Tensor, values: Tensor, target: Tensor) -> None:
    """mean(w v) over the kept samples against mean(v) over all, within SIGMAS standard errors of mean(w v).

    Both means carry sampling error of the same original draw, so the bound is on the safe side.
    """
    weighted = weights[:, None] * values
    error = (weighted.mean(0) - target).abs()
    bound = SIGMAS * weighted.std(0) / len(weights) ** 0.5
    assert bool((error <= bound + 1e-6).all()), f"{error.tolist()} against {bound.tolist()}"


def check_same_seed_same_result(shift: Shift) -> None:
    first, again, other = apply(shift, 3), apply(shift, 3), apply(shift, 4)
    for name in ("keep", "y", "true_y", "trusted", "true_weights"):
        one, two = getattr(first, name), getattr(again, name)
        assert one is two is None or torch.equal(one, two), name
    assert not torch.equal(first.keep[first.trusted], other.keep[other.trusted])


def check_global_randomness_untouched(shift: Shift) -> None:
    before = torch.random.get_rng_state()
    inputs, labels = X.clone(), Y.clone()
    apply(shift)
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.equal(inputs, X)
    assert torch.equal(labels, Y)


def check_kept_samples(shift: Shift) -> None:
    shifted = apply(shift)
    assert shifted.keep.dtype == shifted.y.dtype == shifted.true_y.dtype == torch.int64
    assert len(shifted.keep) == len(shifted.y) == len(shifted.true_y) == len(shifted.flipped)
    assert bool((shifted.keep.diff() > 0).all())
    assert int(shifted.keep[0]) >= 0
    assert int(shifted.keep[-1]) < N
    assert torch.equal(shifted.true_y, Y[shifted.keep])
    assert 0 <= int(shifted.y.min()) <= int(shifted.y.max()) < NUM_CLASSES


def check_trusted_samples(shift: Shift) -> None:
    shifted = apply(shift)
    assert shifted.trusted.dtype == torch.int64
    assert len(shifted.trusted) == TRUSTED
    assert bool((shifted.trusted.diff() > 0).all())
    assert int(shifted.trusted[0]) >= 0
    assert int(shifted.trusted[-1]) < len(shifted.keep)
    assert not bool(shifted.flipped[shifted.trusted].any())


def check_weights_restore_the_data(shift: Shift, trusted: int = TRUSTED) -> None:
    shifted = apply(shift, trusted=trusted)
    weights = shifted.true_weights
    if weights is None:
        return
    assert weights.dtype == torch.float32
    assert weights.shape == shifted.keep.shape
    assert bool((weights >= 0).all())
    assert bool(weights.isfinite().all())
    weighted_mean_is_that_of_the_data(weights, torch.ones(len(weights), 1), torch.ones(1))
    classes = torch.eye(NUM_CLASSES)
    weighted_mean_is_that_of_the_data(weights, classes[shifted.y], classes[Y].mean(0))
    inputs = X.flatten(1)
    features = torch.cat([inputs, inputs**2], dim=1)
    weighted_mean_is_that_of_the_data(weights, features[shifted.keep], features.mean(0))


CHECKS: list[Callable[[Shift], None]] = [
    check_same_seed_same_result,
    check_global_randomness_untouched,
    check_kept_samples,
    check_trusted_samples,
    check_weights_restore_the_data,
]
