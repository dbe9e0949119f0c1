"""Kernels against the reference, and the width that follows the scale of the data."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from adiw import estimate_weights
from adiw.divergences import KL, MMD, Divergence, Squared, Wasserstein
from adiw.matching.batches import MatchedBatches, match
from adiw.matching.kernels import gaussian, kernel_to, resolve_width, squared_distances, typical_distance
from tests.oracles import reference as ref

NAN = float("nan")


def points(seed: int, n: int, m: int, d: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(size, d, generator=generator, dtype=torch.float64) for size in (n, m))


@pytest.mark.parametrize("dim", [1, 2, 5])
@pytest.mark.parametrize("width", [0.05, 0.7, 30.0])
def test_gaussian_against_the_reference(dim: int, width: float) -> None:
    a, b = points(0, 6, 4, dim)
    expected = ref.gaussian(a.numpy(), b.numpy(), width)
    np.testing.assert_allclose(gaussian(a, b, width).numpy(), expected, rtol=1e-9, atol=1e-14)


def test_width_is_sigma() -> None:
    """exp(-1/2) at one width apart; as a number or as a tensor."""
    for width in (3.0, torch.tensor(3.0)):
        found = gaussian(torch.tensor([[0.0]]), torch.tensor([[3.0]]), width)
        assert float(found) == pytest.approx(np.exp(-0.5), rel=1e-6)


@pytest.mark.parametrize("width", [1e-30, 1e-8, 1.0, 1e8, 1e30])
def test_the_kernel_depends_only_on_distance_over_width(width: float) -> None:
    """In float32, where the squares of the first and last width underflow and overflow."""
    units = torch.tensor([[0.0], [0.5], [1.0], [3.0], [20.0]])
    z = (units.double() * width).float()
    expected = torch.exp(-0.5 * (units.double() - units.double().T).square()).float()
    found = gaussian(z, z, width)
    assert_close(found, expected, rtol=2e-5, atol=1e-30)
    assert float(found[0, 4]) == 0  # exp(-200) is smaller than the smallest number of float32


@pytest.mark.parametrize("width", [1e-3, 1e3])
def test_half_precision_is_divided_by_the_width_before_squaring(width: float) -> None:
    z = torch.tensor([[0.0], [width]], dtype=torch.float16)
    assert float(gaussian(z, z, width)[0, 1]) == pytest.approx(math.exp(-0.5), rel=1e-2)


@pytest.mark.parametrize("dim", [1, 2, 8])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_squared_distances_with_a_large_offset(dim: int, offset: float) -> None:
    """float32 numbers near 1e4 are multiples of 0.001: given those, centring leaves an error of a few eps |z|^2.

    Without centring it would be eps 1e8 = 12.
    """
    a, b = ((z + offset).float() for z in points(1, 20, 15, dim))
    exact = (a.double()[:, None] - b.double()[None]).square().sum(2)
    spread_of_z = float((a.double() - b.double().mean(0)).square().sum(1).max())
    allowed = 20 * torch.finfo(torch.float32).eps * max(spread_of_z, 1.0) + (1e-3 * dim if offset else 0)
    assert float((squared_distances(a, b).double() - exact).abs().max()) <= allowed


def test_squared_distances_of_scalars_are_exact() -> None:
    a, b = torch.tensor([[16777216.0], [0.5]]), torch.tensor([[16777214.0], [0.25]])
    assert squared_distances(a, b)[0, 0] == 4.0
    assert squared_distances(a, b)[1, 1] == 0.0625


@pytest.mark.parametrize("dim", [1, 3])
def test_distances_are_never_negative_or_nan(dim: int) -> None:
    for scale in (1e-30, 1.0, 1e18, 1e30):
        z = (scale * torch.randn(10, dim, generator=torch.Generator().manual_seed(2))).float()
        found = squared_distances(z, z)
        assert bool((found >= 0).all()), f"scale {scale}"
        kernel = gaussian(z, z, torch.tensor(scale))
        assert bool(((kernel >= 0) & (kernel <= 1)).all()), f"scale {scale}"


def make_pair(dim: int, groups: int, factor: float = 1.0, outliers: float = 0.0, n: int = 200) -> MatchedBatches:
    """Training samples around the validation samples, of which the share ``outliers`` is a million times further."""
    generator = torch.Generator().manual_seed(dim)
    z_train = torch.randn(n, dim, generator=generator, dtype=torch.float64)
    z_train[: round(outliers * n)] += 1e6
    z_val = 0.5 * torch.randn(50, dim, generator=generator, dtype=torch.float64)
    group_train, group_val = torch.arange(n) % groups, torch.arange(50) % groups
    return match(factor * z_train, factor * z_val, group_train, group_val, groups)


KINDS = [(1, 1), (1, 3), (4, 1), (4, 3)]


@pytest.mark.parametrize(("dim", "groups"), KINDS)
@pytest.mark.parametrize("factor", [1e-6, 1e-3, 7.0, 1e6])
def test_typical_distance_follows_the_scale(dim: int, groups: int, factor: float) -> None:
    plain, scaled = typical_distance(make_pair(dim, groups)), typical_distance(make_pair(dim, groups, factor))
    assert_close(scaled, factor * plain, rtol=1e-9, atol=0)


@pytest.mark.parametrize(("dim", "groups"), KINDS)
def test_a_few_outliers_do_not_set_the_scale(dim: int, groups: int) -> None:
    """The farthest 5% are ignored: 3% of outliers have no effect, 8% have."""
    plain, few, many = (typical_distance(make_pair(dim, groups, outliers=share)) for share in (0.0, 0.03, 0.08))
    assert float(few / plain) == pytest.approx(1, abs=0.15)
    assert float(many / plain) > 1000


def test_typical_distance_against_explicit_formulas() -> None:
    """Scalars: the mean distance to the median. Vectors and classes: the root mean square distance to all."""
    batches = match(torch.tensor([[1.0], [4.0]]), torch.tensor([[2.0], [0.0], [9.0]]))
    assert float(typical_distance(batches)) == pytest.approx(1.5)
    batches = match(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    assert float(typical_distance(batches)) == pytest.approx((25 / 2) ** 0.5)
    both = torch.tensor([0, 1])
    batches = match(torch.tensor([[0.0], [10.0]]), torch.tensor([[3.0], [11.0]]), both, both, 2)
    assert float(typical_distance(batches)) == pytest.approx(2.0)


@pytest.mark.parametrize(("dim", "groups"), KINDS)
def test_excluded_samples_do_not_set_the_scale(dim: int, groups: int) -> None:
    batches = make_pair(dim, groups)
    extra = torch.full((30, dim), NAN, dtype=torch.float64)
    extra[10:] = 1e3
    excluded = torch.where(torch.arange(30) < 10, 0, -1)
    extended = match(
        torch.cat([batches.z_train, extra]),
        torch.cat([batches.z_val, extra]),
        torch.cat([batches.group_train, excluded]),
        torch.cat([batches.group_val, excluded]),
        groups,
    )
    # The distances of vectors lose precision by the values of 1e3: an error of eps 1e6 in the square.
    assert_close(typical_distance(extended), typical_distance(batches), rtol=1e-12 if dim == 1 else 1e-8, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("dim", "groups"), KINDS)
def test_typical_distance_is_positive_and_finite(dim: int, groups: int, dtype: torch.dtype) -> None:
    n = 4 * groups
    group = torch.arange(n) % groups
    for value in (0.0, 2.5, 1e30, -1e30, NAN):
        z = torch.full((n, dim), value, dtype=dtype)
        found = typical_distance(match(z, z.clone(), group, group, groups))
        assert bool(found.isfinite()), value
        assert float(found) > 0, value
        assert float(found**2) > 0, value


def test_resolve_width() -> None:
    batches = make_pair(1, 1)
    assert resolve_width(0.25, batches, fraction=0.5) == 0.25
    assert_close(resolve_width("auto", batches, fraction=0.5), 0.5 * typical_distance(batches))


AUTO = [
    KL(width="auto"),
    KL(width="auto", update="optimum", step_size=0.1),
    KL(width="auto", update="euclidean", step_size=0.1),
    MMD(width="auto"),
    Squared(width="auto", step_size=0.1),
    Wasserstein(scale="auto", critic="exact"),
]


@pytest.mark.parametrize("divergence", AUTO, ids=str)
@pytest.mark.parametrize("factor", [1000.0, 1e-4])
def test_auto_gives_the_same_weights_in_any_unit(divergence: Divergence, factor: float) -> None:
    z_train, z_val = (z.exp() for z in points(3, 40, 20, 1))  # positive and skewed, as losses are
    plain, _ = estimate_weights(z_train, z_val, divergence, steps=5)
    scaled, _ = estimate_weights(factor * z_train, factor * z_val, divergence, steps=5)
    assert_close(scaled, plain, rtol=1e-7, atol=1e-9)
    assert float((plain - plain.mean()).abs().max()) > 0.01  # and they are not all the same


@pytest.mark.parametrize("divergence", [Wasserstein("network", scale="auto", pretrain=0), *AUTO[:5]], ids=str)
def test_auto_gives_the_same_weights_in_any_unit_for_vectors(divergence: Divergence) -> None:
    z_train, z_val = points(4, 30, 20, 2)
    plain, _ = estimate_weights(z_train, z_val, divergence, steps=2)
    scaled, _ = estimate_weights(1024 * z_train, 1024 * z_val, divergence, steps=2)
    assert_close(scaled, plain, rtol=1e-7, atol=1e-9)


def test_fixed_widths_do_not_follow_the_unit() -> None:
    """The test above detects a width that does not follow the unit."""
    z_train, z_val = (z.exp() for z in points(3, 40, 20, 1))
    for divergence in (KL(), MMD(width=0.1), Squared(width=0.1), Wasserstein(scale=1.0)):
        plain, _ = estimate_weights(z_train, z_val, divergence, steps=5)
        scaled, _ = estimate_weights(1000 * z_train, 1000 * z_val, divergence, steps=5)
        assert float((plain - scaled).abs().max()) > 0.01


@pytest.mark.parametrize("divergence", AUTO, ids=str)
@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_auto_survives_extreme_scales_in_float32(divergence: Divergence, scale: float) -> None:
    z_train = scale * torch.tensor([1.0, -1.0, 0.3, 2.0])
    weights, _ = estimate_weights(z_train, scale * torch.tensor([1.0, 0.4, -2.0]), divergence, steps=3)
    assert bool(weights.isfinite().all())
    assert bool((weights >= 0).all())


def test_excluded_vectors_cost_the_others_no_precision() -> None:
    z_train, z_val = ((1000 + z).float() for z in points(5, 8, 8, 2))
    extended = torch.cat([z_val, torch.full((8, 2), NAN)])
    alone, other = (MMD(width=0.5).problem(match(z_train, z)).k for z in (z_val, extended))
    assert_close(other, alone, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("side", ["train", "val"])
@pytest.mark.parametrize("width", [0.7, torch.tensor(0.7)], ids=["number", "tensor"])
@pytest.mark.parametrize("groups", [None, 2])
def test_the_kernel_to_one_side_is_zero_between_groups_and_for_excluded_samples(
    side: Literal["train", "val"], width: float | Tensor, groups: int | None
) -> None:
    z_train, z_val = torch.tensor([[0.1], [float("nan")], [0.5]]), torch.tensor([[0.3], [float("inf")]])
    if groups is None:
        batches = match(z_train, z_val)
    else:
        batches = match(z_train, z_val, torch.tensor([0, 0, 1]), torch.tensor([0, 1]), groups)
    found = kernel_to(side, batches, width)
    right, used = (z_train, batches.included_train) if side == "train" else (z_val, batches.included_val)
    z = torch.cat([z_train, z_val])
    same = torch.cat([batches.same("train", side), batches.same("val", side)])
    expected = torch.where(same, (-((z - right.T) ** 2) / (2 * 0.7**2)).exp(), 0)
    both_excluded = ~torch.cat([batches.included_train, batches.included_val])[:, None] & ~used
    torch.testing.assert_close(found[~both_excluded], expected[~both_excluded])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_denormal_kernel_is_zero(dtype: torch.dtype) -> None:
    """A CPU is slow with denormal numbers."""
    smallest = torch.finfo(dtype).tiny
    edge = math.sqrt(-2 * math.log(smallest))  # the distance at which the kernel is this small
    distance = torch.cat([torch.linspace(0, 1.2 * edge, 1000), torch.tensor([1e3, 1e30, torch.inf])]).to(dtype)
    found, expected = gaussian(torch.zeros(1, 1, dtype=dtype), distance[:, None], 1.0)[0], (-(distance**2) / 2).exp()
    assert bool(((found == 0) | (found >= smallest)).all())
    assert 0 < float(found[found > 0].min()) < 100 * smallest
    torch.testing.assert_close(found, expected, rtol=1e-4 if dtype == torch.float32 else 1e-10, atol=10 * smallest)


@pytest.mark.parametrize("dim", [1, 3])
def test_kernels_can_be_differentiated(dim: int) -> None:
    a, b = torch.randn(4, dim, dtype=torch.float64), torch.randn(3, dim, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda one: gaussian(one, b, 0.7), a.requires_grad_())


def test_half_precision_is_accurate_to_its_precision() -> None:
    distance = torch.tensor([[1.0], [3.0], [4.0]])
    narrow, wide = (
        gaussian(torch.zeros(1, 1).to(kind), distance.to(kind), 1.0) for kind in (torch.half, torch.float)
    )
    assert_close(narrow.float(), wide, rtol=0.01, atol=1e-6)
