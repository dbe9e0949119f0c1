"""Projections against a quadratic-programming solver, and their defining properties."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from adiw.matching import groups, projections
from adiw.matching.groups import group_sum, per_sample
from adiw.matching.projections import (
    box,
    box_mean_band,
    clamp_rescale,
    non_negative,
    simplex,
    smallest_mass,
    weighted_simplex,
)
from tests.oracles.solvers import project_qp

INF = float("inf")
TOLERANCE = 1e-8  # the solver's polished points are good to about 1e-10, relative to the entries


def numbers(seed: int, size: int, scale: float = 2.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(size, generator=generator, dtype=torch.float64)


def coefficients(seed: int, size: int, kind: str) -> Tensor:
    """a >= 0, (n,): equal, unequal, with zeros, or with entries far smaller than the others."""
    generator = torch.Generator().manual_seed(1000 + seed)
    a = 0.1 + torch.rand(size, generator=generator, dtype=torch.float64)
    if kind == "ones":
        return torch.ones(size, dtype=torch.float64)
    if kind == "zeros":
        a[1::3] = 0
    if kind == "tiny":
        a[1::3] = 1e-6
    return a


# Each of these takes v and projects it onto one fixed convex set.
A = coefficients(0, 8, "zeros")
SETS: dict[str, Callable[[Tensor], Tensor]] = {
    "non_negative": non_negative,
    "box": lambda v: box(v, 1.5),
    "simplex": simplex,
    "simplex, total 3": lambda v: simplex(v, 3.0),
    "weighted_simplex": lambda v: weighted_simplex(v, A.to(v.dtype)),
    "mean one": box_mean_band,
    "mean one, upper 1.5": lambda v: box_mean_band(v, 1.5),
    "band": lambda v: box_mean_band(v, 1.5, 0.8, 1.1),
    "band, no upper": lambda v: box_mean_band(v, INF, 0.8, 1.1),
    "all at the upper bound": lambda v: box_mean_band(v, 1.0),
    "two groups": lambda v: box_mean_band(v, 2.0, 0.9, 1.0, torch.tensor([0, 1, 1, 0, 0, 1, 0, 0]), 2),
}
# (upper, a, low, high) of the sets above, for the solver.
ONES = torch.ones(8, dtype=torch.float64)
SOLVED = {
    "non_negative": (INF, 0 * ONES, -INF, INF),
    "box": (1.5, 0 * ONES, -INF, INF),
    "simplex": (INF, ONES, 1.0, 1.0),
    "simplex, total 3": (INF, ONES, 3.0, 3.0),
    "weighted_simplex": (INF, A, 1.0, 1.0),
    "mean one": (INF, ONES, 8.0, 8.0),
    "mean one, upper 1.5": (1.5, ONES, 8.0, 8.0),
    "band": (1.5, ONES, 6.4, 8.8),
    "band, no upper": (INF, ONES, 6.4, 8.8),
}
every_set = pytest.mark.parametrize("name", SETS)


@pytest.mark.parametrize("name", SOLVED)
def test_against_the_solver(name: str) -> None:
    upper, a, low, high = SOLVED[name]
    for seed in range(12):
        v = numbers(seed, 8, scale=(0.3, 2.0, 30.0)[seed % 3])
        expected = project_qp(v.numpy(), upper, a.numpy(), low, high)
        np.testing.assert_allclose(SETS[name](v).numpy(), expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("upper", [2.0, INF])
@pytest.mark.parametrize("width", [0.0, 0.3])
def test_band_of_several_groups_against_the_solver(seed: int, upper: float, width: float) -> None:
    """Groups of different sizes from one up, each with its own band, in mixed order, with excluded samples."""
    generator = torch.Generator().manual_seed(seed)
    group = torch.cat([torch.arange(4), torch.randint(-1, 4, (12,), generator=generator)])
    group = group[torch.randperm(16, generator=generator)]
    v = numbers(seed, 16)
    low = 0.3 + torch.rand(4, generator=generator, dtype=torch.float64)
    high = low + width
    found = box_mean_band(v, upper, low, high, group, 4)
    for g in range(4):
        rows = group == g
        count = int(rows.sum())
        limits = count * float(low[g]), count * float(high[g])
        expected = project_qp(v[rows].numpy(), upper, np.ones(count), *limits)
        np.testing.assert_allclose(found[rows].numpy(), expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("kind", ["ones", "uneven", "zeros", "tiny"])
@pytest.mark.parametrize("seed", range(6))
def test_weighted_simplex_of_several_groups_against_the_solver(seed: int, kind: str) -> None:
    group = torch.tensor([0, 1, 0, 1, 1, 0, -1, 1, 0, 2, 2, 0])
    v, a = numbers(seed, 12), coefficients(seed, 12, kind)
    found = weighted_simplex(v, a, 1.5, group, 3)
    for g in range(3):
        rows = group == g
        expected = project_qp(v[rows].numpy(), INF, a[rows].numpy(), 1.5, 1.5)
        np.testing.assert_allclose(found[rows].numpy(), expected, rtol=1e-7, atol=1e-7)


@every_set
def test_idempotent(name: str) -> None:
    for seed in range(20):
        once = SETS[name](numbers(seed, 8))
        assert_close(SETS[name](once), once, rtol=1e-13, atol=1e-13)


@every_set
def test_non_expansive_in_the_euclidean_norm(name: str) -> None:
    for seed in range(20):
        v, u = numbers(seed, 8), numbers(100 + seed, 8)
        distance = (SETS[name](v) - SETS[name](u)).norm()
        assert float(distance) <= float((v - u).norm()) * (1 + 1e-12)


@every_set
def test_nearest_of_the_feasible_points(name: str) -> None:
    """(v - x)'(u - x) <= 0 for every feasible u holds only for the nearest point x of a convex set."""
    for seed in range(10):
        v = numbers(seed, 8)
        x = SETS[name](v)
        for other in range(20):
            u = SETS[name](numbers(200 + other, 8, scale=3.0))
            assert float((v - x) @ (u - x)) <= 1e-10
            assert float((v - x).norm()) <= float((v - u).norm()) + 1e-12


@pytest.mark.parametrize("name", [name for name in SETS if name not in ("weighted_simplex", "two groups")])
def test_order_does_not_matter(name: str) -> None:
    order = torch.tensor([3, 0, 7, 5, 1, 2, 6, 4])
    v = numbers(3, 8)
    assert_close(SETS[name](v[order]), SETS[name](v)[order])


@every_set
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_float32_is_as_accurate_as_its_input(name: str, scale: float) -> None:
    """The projection is non-expansive: rounding v by 6e-8 of its norm moves x by no more. The test allows 3e-7."""
    for seed in range(10):
        v = numbers(seed, 8, scale).float()
        allowed = 5 * 6e-8 * max(float(v.norm()), 8.0)
        error = (SETS[name](v).double() - SETS[name](v.double())).norm()
        assert float(error) <= allowed


def test_float32_on_a_large_batch() -> None:
    """The mean of 4096 entries is accurate to 1e-6, although running sums of that length lose three digits."""
    for upper in (INF, 5.0):
        x = box_mean_band(numbers(0, 4096, 3.0).float(), upper)
        assert abs(float(x.double().mean()) - 1) < 1e-6
        group = torch.arange(4096) % 10
        x = box_mean_band(numbers(1, 4096, 3.0).float(), upper, group=group, num_groups=10)
        means = group_sum(x.double(), group, 10) / group_sum(torch.ones(4096, dtype=torch.float64), group, 10)
        assert float((means - 1).abs().max()) < 1e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("upper", [INF, 2.5])
def test_entries_beyond_the_precision_are_still_projected(dtype: torch.dtype, upper: float) -> None:
    """The two largest of three entries share the total, no matter how large they are."""
    big = 10 / torch.finfo(dtype).eps ** 1.2
    x = box_mean_band(torch.tensor([big, big, 0.0], dtype=dtype), upper)
    assert_close(x, torch.tensor([1.5, 1.5, 0.0], dtype=dtype))


def test_feasible_points_do_not_change() -> None:
    v = torch.tensor([0.3, 1.0, 1.1, 0.0])
    assert torch.equal(box_mean_band(v, 1.2, 0.5, 1.0), v)
    for seed in range(20):
        inside = numbers(seed, 50).float().abs().clamp_max(3)
        assert torch.equal(box_mean_band(inside, 3.0, 0.5, 2.5), inside)
    assert torch.equal(box(v, 1.1), v)
    assert torch.equal(non_negative(v), v)


def test_each_side_of_the_band_is_reached_from_its_own_side() -> None:
    for shift, mean in ((-3.0, 0.8), (3.0, 1.1), (0.95, None)):
        v = 0.1 * numbers(0, 8) + shift
        x = box_mean_band(v, 5.0, 0.8, 1.1)
        assert float(x.mean()) == pytest.approx(float(v.mean()) if mean is None else mean, abs=1e-12)


def test_known_projections() -> None:
    assert_close(box_mean_band(torch.tensor([0.0, 1.0, 5.0]), 2.5), torch.tensor([0.0, 0.5, 2.5]))
    assert_close(box_mean_band(torch.tensor([4.0, 4.0])), torch.tensor([1.0, 1.0]))
    assert_close(box_mean_band(torch.tensor([-9.0])), torch.tensor([1.0]))
    assert_close(box_mean_band(torch.tensor([1.0, -2.0]), low=0.0, high=0.0), torch.tensor([0.0, 0.0]))
    assert_close(simplex(torch.tensor([10.0, 0.0])), torch.tensor([1.0, 0.0]))
    assert_close(weighted_simplex(torch.tensor([3.0, -1.0]), torch.tensor([0.0, 2.0])), torch.tensor([3.0, 0.5]))


def test_entries_without_a_coefficient_are_only_clipped() -> None:
    v = torch.tensor([-1.0, 2.0, 0.5])
    assert_close(weighted_simplex(v, torch.tensor([0.0, 0.0, 1.0])), torch.tensor([0.0, 2.0, 1.0]))
    assert torch.equal(weighted_simplex(v, torch.zeros(3)), torch.tensor([0.0, 2.0, 0.5]))


def test_excluded_entries_and_empty_groups_do_not_matter() -> None:
    v, group = numbers(0, 6), torch.tensor([0, 0, 2, 2, 2, 0])
    alone = box_mean_band(v, 2.0, group=group, num_groups=3)  # group 1 is empty
    extra = torch.tensor([float("nan"), 1e30, -5.0], dtype=torch.float64)
    extended = box_mean_band(torch.cat([extra, v]), 2.0, group=torch.cat([torch.full((3,), -1), group]), num_groups=3)
    assert_close(extended[3:], alone, rtol=0, atol=1e-14)


@pytest.mark.parametrize("seed", range(5))
def test_clamp_rescale(seed: int) -> None:
    """Feasible points are fixed points; zeros and ratios do not change; the scale of v does not matter."""
    a, v = coefficients(seed, 8, "uneven"), numbers(seed, 8)
    x = clamp_rescale(v, a)
    assert float(x.min()) >= 0
    assert float(a @ x) == pytest.approx(1.0, abs=1e-12)
    assert bool(((x == 0) == (v <= 0)).all())
    assert_close(x * (a @ v.clamp_min(0)), v.clamp_min(0))
    assert_close(clamp_rescale(x, a), x)
    assert_close(clamp_rescale(1e3 * v, a), x)
    assert_close(clamp_rescale(v, 4 * a), x / 4)
    feasible = weighted_simplex(v, a)
    assert_close(clamp_rescale(feasible, a), feasible)


def test_clamp_rescale_by_group() -> None:
    group = torch.tensor([0, 1, 0, -1, 1, 2])
    a, v = coefficients(1, 6, "uneven"), numbers(1, 6).abs()
    v[5] = -1  # group 2 has nothing to rescale
    x = clamp_rescale(v, a, group, 3)
    for g in (0, 1):
        rows = group == g
        assert_close(x[rows], clamp_rescale(v[rows], a[rows]))
    assert float(x[5]) == 0
    masses = group_sum(a * x, group, 3)
    assert_close(masses, torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64))


def test_without_groups_their_number_does_not_matter() -> None:
    v, a = torch.tensor([1.0, 3.0]), torch.tensor([0.5, 0.5])
    assert_close(clamp_rescale(v, a, num_groups=2), clamp_rescale(v, a))


def test_clamp_rescale_of_zeros_is_zero() -> None:
    assert torch.equal(clamp_rescale(torch.tensor([-1.0, 0.0]), torch.ones(2)), torch.zeros(2))
    assert torch.equal(clamp_rescale(torch.tensor([1.0, 2.0]), torch.zeros(2)), torch.tensor([0.5, 1.0]))


def test_clamp_rescale_of_a_denormal_mass_is_finite() -> None:
    assert bool(clamp_rescale(torch.ones(2), torch.full((2,), 1e-41)).isfinite().all())


def test_limits_per_group() -> None:
    group = torch.tensor([0, 0, 1, 1])
    low = torch.tensor([0.5, 2.0], dtype=torch.float64)
    x = box_mean_band(torch.zeros(4, dtype=torch.float64), 3.0, low, low, group, 2)
    assert_close(x, per_sample(low, group))


def test_gradients_are_not_needed_but_inputs_are_not_changed() -> None:
    v, a = numbers(0, 8), coefficients(0, 8, "uneven")
    before = v.clone(), a.clone()
    box_mean_band(v, 1.5), weighted_simplex(v, a), clamp_rescale(v, a), simplex(v), box(v, 1.0), non_negative(v)
    assert torch.equal(before[0], v)
    assert torch.equal(before[1], a)


@pytest.mark.parametrize("num_groups", [1, 4])
@pytest.mark.parametrize("upper", [1.5, 50.0, float("inf")])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 40.0, 1e6])
def test_comparing_pairs_and_sorting_give_the_same_point(
    monkeypatch: pytest.MonkeyPatch, upper: float, scale: float, num_groups: int
) -> None:
    """Small batches compare all pairs, large ones are sorted."""
    low, high = torch.linspace(0.7, 0.9, num_groups).double(), torch.linspace(1.2, 1.0, num_groups).double()
    for seed in range(20):
        v = numbers(seed, 60, scale=scale)
        v[:7] = v[7]  # equal entries
        group = numbers(seed + 100, 60).long() % (num_groups + 1) - 1  # some are excluded
        band = {"low": low, "high": high, "group": group, "num_groups": num_groups}
        monkeypatch.setattr(groups, "FEW_ON_CPU", 1024)
        pairs = box_mean_band(v, upper, **band)
        monkeypatch.setattr(groups, "FEW_ON_CPU", 0)
        used, tolerance = group >= 0, 1e-9 * max(1, scale * 1e-3)
        assert_close(pairs[used], box_mean_band(v, upper, **band)[used], rtol=1e-9, atol=tolerance)


def test_few_samples_of_several_groups_are_not_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorting takes five times as many kernels, which are most of the time of a captured step on features."""
    monkeypatch.setattr(projections, "_box_band", None)
    group = torch.tensor([0, 1, 0, 1, -1])
    v = torch.tensor([3.0, 0.0, 0.0, 1.0, 9.0])
    assert_close(box_mean_band(v, group=group, num_groups=3)[:4], torch.tensor([2.0, 0.5, 0.0, 1.5]))


@pytest.mark.parametrize("size", [6, 300])
def test_all_tensors_are_on_the_device_of_the_samples(size: int) -> None:
    """Tensors of two devices raise. On the meta device they have no values, so none can be read."""
    v, group = torch.ones(size, device="meta"), torch.zeros(size, dtype=torch.long, device="meta")
    for project in (box_mean_band(v, group=group, num_groups=2), weighted_simplex(v, v, 1.0, group, 2)):
        assert (project.device.type, project.shape) == ("meta", v.shape)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", range(10))
def test_nearly_equal_entries_are_raised_to_the_mean(seed: int, dtype: torch.dtype) -> None:
    """Rounding makes v - upper equal for entries that differ."""
    apart = torch.rand(32, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    v = 0.09 + 0.001 * seed + 50 * torch.finfo(dtype).eps * apart
    v[::4] -= 0.02
    x = box_mean_band(v, 50.0, 0.2, 1.8)
    assert_close(x, v + (0.2 - v.mean()), rtol=0, atol=100 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("size", [3, 7, 10, 19])
def test_a_bound_equal_to_the_mean_is_feasible_despite_rounding(size: int) -> None:
    """In floating point, 7 * 0.1 differs from the sum of seven entries of 0.1."""
    assert_close(box_mean_band(numbers(0, size), 0.1, 0.1, 0.1), torch.full((size,), 0.1).double())
    assert_close(box_mean_band(numbers(0, size), 0.1, 0.2, 0.3), torch.full((size,), 0.1).double())


@pytest.mark.parametrize("kind", ["ones", "zeros", "tiny"])
def test_comparing_pairs_and_sorting_give_the_same_simplex_point(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    group = torch.tensor([0, 2, -1, 0, 1, 0, 2, 0, 1, 2, 0, 2])  # group 3 is empty
    for seed in range(6):
        v, a = numbers(seed, 12, scale=3.0), coefficients(seed, 12, kind)
        monkeypatch.setattr(groups, "FEW_ON_CPU", 1024)
        pairs = weighted_simplex(v, a, 1.0, group, 4)
        monkeypatch.setattr(groups, "FEW_ON_CPU", 0)
        assert_close(pairs[group >= 0], weighted_simplex(v, a, 1.0, group, 4)[group >= 0], rtol=1e-8, atol=1e-8)


def test_simplex_of_entries_of_very_different_size() -> None:
    """A large entry with a small coefficient has a large ratio v / a, which must not cost the others precision."""
    a, v = torch.tensor([1.0, 1.0, 1e-9]), torch.tensor([0.3, 2.0, 2.8e5])
    found = weighted_simplex(v, a)
    assert float(a @ found) == pytest.approx(1, rel=1e-6)
    assert found.tolist() == pytest.approx([0.0, 1 - 2.8e-4, 2.8e5], rel=1e-5)


@pytest.mark.parametrize("groups", [None, torch.tensor([1, 0, 1, 0])])
@pytest.mark.parametrize("size", [1e-30, 1e20, 1e38])
def test_clamp_rescale_depends_only_on_the_direction(groups: Tensor | None, size: float) -> None:
    v, a = torch.tensor([1.0, 2.0, -1.0, 0.5]), torch.tensor([1e-20, 1e-25, 0.3, 1e-3])
    number = 1 if groups is None else 2
    assert_close(clamp_rescale(v * size, a, groups, number), clamp_rescale(v, a, groups, number))


@pytest.fixture
def sorting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sort, as for a batch that is too large to compare all pairs."""
    monkeypatch.setattr(groups, "FEW_ON_CPU", 0)


def test_by_default_the_mean_is_one() -> None:
    v = torch.tensor([1.2, 1.4])
    assert torch.equal(box_mean_band(v, high=3.0), v)
    assert_close(box_mean_band(v - 1, high=3.0), torch.tensor([0.9, 1.1]))


@pytest.mark.usefixtures("sorting")
def test_booleans_are_a_single_group() -> None:
    v, a = numbers(0, 8), coefficients(0, 8, "uneven")
    used = torch.tensor([True, True, False, True, True, False, True, True])
    group = used.long() - 1
    assert_close(box_mean_band(v, 2.0, group=used)[used], box_mean_band(v, 2.0, group=group)[used])
    assert_close(box_mean_band(v, 2.0, group=used)[used], box_mean_band(v[used], 2.0))
    assert_close(weighted_simplex(v, a, group=used)[used], weighted_simplex(v[used], a[used]))
    assert_close(clamp_rescale(v, a, group=used)[used], clamp_rescale(v[used], a[used]))


def test_the_smallest_mass_counts_as_zero() -> None:
    least = smallest_mass(torch.float32)
    a, v = torch.full((1,), least), torch.tensor([3.0])
    assert torch.equal(weighted_simplex(v, a), v)
    assert torch.equal(clamp_rescale(torch.ones(1), a), torch.ones(1))
    assert_close(weighted_simplex(v, 2 * a), 1 / (2 * a))
    assert_close(clamp_rescale(torch.ones(1), 2 * a), 1 / (2 * a))


@pytest.mark.parametrize("small", [0, 1024])
def test_a_small_coefficient_still_moves_its_entry(monkeypatch: pytest.MonkeyPatch, small: int) -> None:
    """x = v - tau a: with tau = -1e8 even a coefficient of 1e-16 has an effect."""
    monkeypatch.setattr(groups, "FEW_ON_CPU", small)
    x = weighted_simplex(torch.tensor([-1e8, 0.0], dtype=torch.float64), torch.tensor([1.0, 1e-16]).double())
    assert float(x[1]) == pytest.approx(1e-8, rel=1e-6)


@pytest.mark.parametrize("upper", [INF, 2.5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_largest_numbers(dtype: torch.dtype, upper: float) -> None:
    most = torch.finfo(dtype).max
    x = box_mean_band(torch.tensor([most, -most, -most, most], dtype=dtype), upper)
    assert_close(x, torch.tensor([2.0, 0.0, 0.0, 2.0], dtype=dtype))


@pytest.mark.usefixtures("sorting")
def test_feasible_points_do_not_change_in_a_large_batch() -> None:
    group = torch.arange(50) % 3
    for seed in range(10):
        inside = numbers(seed, 50).float().abs().clamp_max(3)
        assert torch.equal(box_mean_band(inside, 3.0, 0.2, 2.8), inside)
        assert torch.equal(box_mean_band(inside, 3.0, 0.2, 2.8, group, 3), inside)


@pytest.mark.parametrize("num_groups", [1, 2])
@pytest.mark.usefixtures("sorting")
def test_with_a_bound_below_the_mean_all_entries_are_at_the_bound(num_groups: int) -> None:
    group = torch.tensor([0, -1, 0, num_groups - 1, -1, num_groups - 1])
    x = box_mean_band(numbers(0, 6), 0.5, group=group, num_groups=num_groups)
    assert x[group >= 0].tolist() == [0.5] * 4


@pytest.mark.usefixtures("sorting")
def test_the_last_group_may_be_empty() -> None:
    v, group = numbers(0, 6), torch.tensor([0, 0, 1, 1, 1, 0])
    assert_close(box_mean_band(v, 2.0, group=group, num_groups=4), box_mean_band(v, 2.0, group=group, num_groups=2))


@pytest.mark.usefixtures("sorting")
def test_a_mean_of_zero_in_every_group() -> None:
    x = box_mean_band(numbers(0, 6), 2.0, 0.0, 0.0, torch.arange(6) % 2, 2)
    assert x.abs().max() == 0


@pytest.mark.parametrize("far", [1e6, 1e12, 1e18])
def test_distant_groups_do_not_affect_each_other(far: float) -> None:
    """Groups of one entry that is far from the entries of another group."""
    v = torch.tensor([-far, 0.3, 0.9, 0.1, far], dtype=torch.float64)
    x = box_mean_band(v, group=torch.tensor([0, 1, 1, 1, 2]), num_groups=3)
    assert x[[0, 4]].tolist() == [1.0, 1.0]
    assert_close(x[1:4], box_mean_band(v[1:4]))


@pytest.mark.parametrize("seed", range(20))
def test_groups_with_a_single_positive_coefficient(seed: int) -> None:
    """The entry becomes one over its coefficient; entries of its group without a coefficient are only clipped."""
    group = torch.tensor([2, 0, -1, -1, -1, 2, -1, 1])
    v, a = numbers(seed, 8), coefficients(seed, 8, "uneven") / 2
    a[5] = 0
    x = weighted_simplex(v, a, group=group, num_groups=3)
    assert_close(x[[0, 1, 7]], 1 / a[[0, 1, 7]])
    assert_close(x[5], v[5].clamp_min(0))


def test_entries_far_below_zero_reach_the_total_too() -> None:
    """Only the differences between the entries matter."""
    v = torch.tensor([-2214345.7352461866, -2214343.12620611, -2214344.5661288975, -2214344.4045902938]).double()
    a = torch.tensor([0.3154225735640095, 0.7058609753312879, 0.9074587545072014, 0.4557259866441826]).double()
    for seed in range(20):
        x = weighted_simplex(v + numbers(seed, 4), a)
        assert float(a @ x) == pytest.approx(1, abs=1e-9)


@pytest.mark.usefixtures("sorting")
def test_an_entry_without_a_coefficient_is_never_the_pivot() -> None:
    """Group 1 has one entry with a coefficient. By rounding, its cap may seem not to reach the total."""
    for seed in range(30):
        generator = torch.Generator().manual_seed(seed)
        v, a = torch.randn(4, generator=generator).double() - 100, torch.rand(4, generator=generator).double()
        a[0] = 0
        x = weighted_simplex(v, a, group=torch.tensor([1, 0, 0, 1]), num_groups=2)
        assert float(x[3]) == pytest.approx(1 / float(a[3]))


@pytest.mark.usefixtures("sorting")
def test_a_piece_ends_at_the_next_event() -> None:
    """Running sums near 1e7 have few digits: the tau from them must stay on its piece, whose ends are exact."""
    v = torch.tensor([-9999998.909908295, -10000000.353152186, -9999998.672390342]).double()
    a = torch.tensor([0.643466591835022, 0.8947982788085938, 0.7624719142913818]).double()
    assert weighted_simplex(v, a).tolist() == pytest.approx([0, 1 / float(a[1]), 0])


def test_totals_and_bounds_that_cannot_be_reached() -> None:
    with pytest.raises(ValueError, match=r"total must be small enough for sums in torch\.float32, got 2\.5e\+38"):
        weighted_simplex(torch.ones(2), torch.ones(2), 2.5e38)
    assert_close(weighted_simplex(torch.ones(2), torch.ones(2), 1e38), torch.full((2,), 5e37))
    with pytest.raises(ValueError, match=r"low must be a number or one for each group, \(2,\), got \(3,\)"):
        box_mean_band(torch.ones(4), low=torch.ones(3), group=torch.arange(4) % 2, num_groups=2)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("v", lambda bad: non_negative(bad)),
        ("v", lambda bad: box(bad, 1.0)),
        ("v", lambda bad: box_mean_band(bad)),
        ("v", lambda bad: simplex(bad)),
        ("v", lambda bad: weighted_simplex(bad, torch.ones(2))),
        ("a", lambda bad: weighted_simplex(torch.ones(2), bad)),
        ("v", lambda bad: clamp_rescale(bad, torch.ones(2))),
        ("a", lambda bad: clamp_rescale(torch.ones(2), bad)),
    ],
)
def test_invalid_vectors(name: str, call: Callable[[Any], Tensor]) -> None:
    with pytest.raises(TypeError, match=f"^{name} must be"):
        call([1.0, 2.0])


@pytest.mark.parametrize("bound", [-1.0, float("nan"), "1"])
def test_invalid_bounds(bound: Any) -> None:
    v = torch.ones(2)
    for name in ("upper", "low", "high"):
        with pytest.raises(ValueError, match=f"^{name} must be a number of at least 0, got"):
            box_mean_band(v, **{name: bound})
    with pytest.raises(ValueError, match=r"^upper must be a number of at least 0, got"):
        box(v, bound)
    with pytest.raises(ValueError, match=r"^total must be a number of at least 0, got"):
        weighted_simplex(v, v, bound)
    for name in ("low", "high"):
        assert box_mean_band(v, **{name: torch.ones(1)}).tolist() == [1, 1]
        with pytest.raises(ValueError, match=rf"^{name} must be a number or one for each group, \(1,\), got \(2,\)"):
            box_mean_band(v, **{name: v})


def test_coefficients_of_another_length_are_an_error() -> None:
    for project in (weighted_simplex, clamp_rescale):
        with pytest.raises(ValueError, match=r"^a must be \(2,\), got \(3,\)"):
            project(torch.ones(2), torch.ones(3))


def test_excluded_entries_do_not_set_the_scale() -> None:
    v, a, used = torch.tensor([1e-35, 5.0]), torch.ones(2), torch.tensor([True, False])
    assert clamp_rescale(v, a, used).tolist() == [1.0, 0.0]


def test_groups_of_very_different_scale_are_rescaled_separately() -> None:
    v, a = torch.tensor([1e-35, 5.0]), torch.ones(2)
    assert clamp_rescale(v, a, torch.tensor([0, 1]), 2).tolist() == [1.0, 1.0]


def test_a_bound_beyond_the_largest_number_has_no_effect() -> None:
    v = torch.tensor([-1.0, 3.0])
    assert box(v, 1e39).tolist() == [0.0, 3.0]
    assert_close(box_mean_band(v, 1e39), torch.tensor([0.0, 2.0]))
    assert box(v.half(), 1e5).tolist() == [0.0, 3.0]


@pytest.mark.parametrize(
    ("small", "v", "a"),
    [(0, 3e38, 1e-3), (0, 3e38, 1e-6), (1024, 3e38, 1e-3), (1024, 3e38, 1e-6), (1024, 1e30, 1e-10)],
)
def test_entries_that_dominate_all_others(monkeypatch: pytest.MonkeyPatch, small: int, v: float, a: float) -> None:
    """v / a overflows to plus or minus infinity."""
    monkeypatch.setattr(groups, "FEW_ON_CPU", small)
    coefficients = torch.tensor([a, 1.0, 0.5, 0.0])
    assert_close(
        weighted_simplex(torch.tensor([v, 1.0, 2.0, 7.0]), coefficients), torch.tensor([1 / a, 0.0, 0.0, 7.0])
    )
    assert_close(
        weighted_simplex(torch.tensor([-v, 1.0, -9.0, 7.0]), coefficients), torch.tensor([0.0, 1.0, 0.0, 7.0])
    )


@pytest.mark.parametrize("small", [0, 1024])
def test_entries_that_do_not_change_the_sum_are_not_moved(monkeypatch: pytest.MonkeyPatch, small: int) -> None:
    monkeypatch.setattr(groups, "FEW_ON_CPU", small)
    x = weighted_simplex(torch.tensor([1e30, 1.0, 3.0]), torch.tensor([1e-18, 1.0, 1.0]))
    assert_close(x, torch.tensor([1e30, 0.0, 1.0]))
