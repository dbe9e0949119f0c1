"""Projections onto the constraint sets of the divergences: exact, batched over groups, no host synchronisation.

Every Euclidean projection here solves one problem,

    argmin_x 1/2 ||x - v||^2   subject to   0 <= x <= upper,   low <= a'x <= high   (a >= 0),

whose solution is x = clip(v - tau a, 0, upper) with one number tau per group. a'x is a decreasing, piecewise linear
function of tau, so sorting the ends of its pieces gives tau exactly, without iteration or tolerance.
"""

from __future__ import annotations

import torch
from torch import Tensor

from adiw.argument_checks import check_vector, is_real
from adiw.matching.groups import (
    are_few,
    group_max,
    group_numbers,
    group_order,
    group_sum,
    is_included,
    masked,
    per_sample,
    same_group,
)

__all__ = ["box", "box_mean_band", "clamp_rescale", "non_negative", "simplex", "weighted_simplex"]


def non_negative(v: Tensor) -> Tensor:
    """argmin_x ||x - v||^2 subject to x >= 0.

    >>> non_negative(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    check_vector("v", v)
    return v.clamp_min(0)


def box(v: Tensor, upper: float) -> Tensor:
    """argmin_x ||x - v||^2 subject to 0 <= x <= upper.

    >>> box(torch.tensor([-1.0, 2.0, 9.0]), 5.0)
    tensor([0., 2., 5.])
    """
    check_vector("v", v)
    _check_bounds(upper=upper)
    return v.clamp(0, _fit(upper, v))


def box_mean_band(
    v: Tensor,
    upper: float = float("inf"),
    low: float | Tensor = 1.0,
    high: float | Tensor = 1.0,
    group: Tensor | None = None,
    num_groups: int = 1,
) -> Tensor:
    """argmin_x ||x - v||^2 subject to 0 <= x <= upper and low <= mean(x) <= high, in each group.

    ``v`` (n,); ``low`` and ``high`` are numbers or one value per group (num_groups,).

    >>> box_mean_band(torch.tensor([0.0, 1.0, 5.0]), upper=2.5)
    tensor([0.0000, 0.5000, 2.5000])
    """
    check_vector("v", v)
    _check_bounds(num_groups, upper=upper, low=low, high=high)
    upper = _fit(upper, v)
    group = torch.ones_like(v, dtype=torch.bool) if group is None else group
    if are_few(v):
        return _small_band(v, upper, low, high, group, num_groups)
    group = group_numbers(group)
    count = group_sum(torch.ones_like(v), group, num_groups)
    return _box_band(v, torch.ones_like(v), upper, low * count, high * count, group, num_groups)


def simplex(v: Tensor, total: float = 1.0) -> Tensor:
    """argmin_x ||x - v||^2 subject to x >= 0 and sum(x) = total.

    >>> simplex(torch.tensor([0.5, 0.7, -1.0]))
    tensor([0.4000, 0.6000, 0.0000])
    """
    check_vector("v", v)
    return weighted_simplex(v, torch.ones_like(v), total)


def weighted_simplex(
    v: Tensor, a: Tensor, total: float = 1.0, group: Tensor | None = None, num_groups: int = 1
) -> Tensor:
    """argmin_x ||x - v||^2 subject to x >= 0 and a'x = total (a >= 0), in each group.

    >>> weighted_simplex(torch.tensor([1.0, 1.0]), torch.tensor([1.0, 2.0]))
    tensor([0.6000, 0.2000])
    """
    check_vector("v", v)
    check_vector("a", a, like=v)
    _check_bounds(total=total)
    if total > torch.finfo(v.dtype).max / len(v):
        raise ValueError(f"total must be small enough for sums in {v.dtype}, got {total!r}")
    group = torch.zeros_like(v, dtype=torch.long) if group is None else group_numbers(group)
    unit = mass_or_one(group_max(a, group, num_groups))  # only ratios within a matter, so a small a is not zero
    target, a = total / unit, a / per_sample(unit, group)
    significant = a > torch.finfo(v.dtype).eps ** 2
    far = torch.finfo(v.dtype).max / 4 * a  # v is clamped to +-far so that v / a is finite
    v, a = torch.where(significant, v.clamp(-far, far), v), torch.where(significant, a, 0)
    if are_few(v):
        return _small_simplex(v, a, target, group)
    wide, target = (v.double(), a.double()), target.double()  # for running sums of v / a, which may be large
    return _box_band(*wide, float("inf"), target, target, group, num_groups).to(v.dtype)


def clamp_rescale(v: Tensor, a: Tensor, group: Tensor | None = None, num_groups: int = 1) -> Tensor:
    """Set negative entries to zero, then divide by a'x so that a'x = 1, in each group.

    The result is in the set of ``weighted_simplex`` but is not the nearest point of it: rescaling moves along the ray
    through the origin, so that zeros stay zero. Where a'x is zero, the largest entry becomes one.

    >>> clamp_rescale(torch.tensor([1.0, -3.0]), torch.tensor([0.5, 0.5]))
    tensor([2., 0.])
    """
    check_vector("v", v)
    check_vector("a", a, like=v)
    num_groups = 1 if group is None else num_groups
    x = clamp_to_one(v, group, num_groups)
    return rescale(x, group_sum(a * x, group, num_groups), group)


def clamp_to_one(v: Tensor, group: Tensor | None, num_groups: int) -> Tensor:
    """Set negative entries to zero and divide by the largest, so that dividing by a'x does not overflow.

    Excluded entries become zero: they may be larger than the included ones.
    """
    tiny = torch.finfo(v.dtype).tiny
    x = (v if group is None else masked(group, v)).clamp_min(0)
    if group is None or num_groups == 1:
        return x / x.amax(0, keepdim=True).clamp_min(tiny)
    return x / per_sample(group_max(x, group, num_groups).clamp_min(tiny), group)


def _check_bounds(num_groups: int = 1, **bounds: float | Tensor) -> None:
    """Raise for bounds that no x >= 0 satisfies. ``low`` and ``high`` may be tensors, whose values are not read."""
    for name, bound in bounds.items():
        if isinstance(bound, Tensor) and name in ("low", "high"):
            if bound.shape not in ((), (num_groups,)):
                raise ValueError(
                    f"{name} must be a number or one for each group, ({num_groups},), got {tuple(bound.shape)}"
                )
        elif not (is_real(bound) and bound >= 0):
            raise ValueError(f"{name} must be a number of at least 0, got {bound!r}")


def _fit(bound: float, v: Tensor) -> float:
    """The bound, at most the largest number of v's dtype."""
    return bound if bound == float("inf") else min(bound, torch.finfo(v.dtype).max)


def rescale(x: Tensor, mass: Tensor, group: Tensor | None) -> Tensor:
    """x (n,) divided by the mass a'x of its group, (num_groups,). Groups of mass zero do not change."""
    mass = mass_or_one(mass)
    return x / (mass if group is None else per_sample(mass, group))


def has_mass(mass: Tensor, group: Tensor | None) -> Tensor:
    """Whether the mass (num_groups,) of each sample's group is above zero: (n,), or (1,) for a single group."""
    reached = mass > smallest_mass(mass.dtype)
    return reached if group is None else per_sample(reached, group)


def mass_or_one(mass: Tensor) -> Tensor:
    """The mass, or one where it is zero, to divide by."""
    return torch.threshold(mass, smallest_mass(mass.dtype), 1)


def smallest_mass(dtype: torch.dtype) -> float:
    """A mass a'x below this counts as zero: above it, a sum of coefficients divided by the mass is finite."""
    return torch.finfo(dtype).tiny / torch.finfo(dtype).eps


def _small_band(
    v: Tensor, upper: float, low: float | Tensor, high: float | Tensor, group: Tensor, num_groups: int
) -> Tensor:
    """``box_mean_band`` for few samples, in few kernels: it evaluates all pieces instead of sorting.

    sum_i clip(v_i - tau, 0, cap) falls with tau; its pieces end where tau is v_j or v_j - cap for some j. Evaluate it
    at all ends, (2n, n), and interpolate between the smallest sum of the group that reaches the target and the
    largest that does not. Only differences v_i - v_j enter, so large entries lose no precision. The ends are ordered
    by their sums, so rounding may order ends that almost coincide either way.
    """
    used = is_included(group)
    own = used[:, None] if num_groups == 1 else group[:, None] == torch.arange(num_groups, device=v.device)
    count = own.sum(0, dtype=v.dtype)
    most = torch.finfo(v.dtype).max / 4
    v = v.clamp(-most, most)
    cap = per_sample((high * count).clamp_max(upper), group)  # no feasible x exceeds the sum
    plain = torch.minimum(v.clamp_min(0), cap)
    total = torch.where(own, plain[:, None], 0).sum(0)
    target = total.clamp(low * count, high * count)
    apart = v - v[:, None]
    points = torch.minimum(torch.cat([apart, apart + cap]).clamp_min(0), cap)
    member = used if num_groups == 1 else same_group(torch.cat([group, group]), group)
    value = torch.where(member, points, 0).sum(1, keepdim=True)
    value = torch.where(torch.cat([own, own]), value, -1)  # (2n, num_groups)
    target = torch.minimum(target, value.amax(0))
    enough = value >= target
    before = torch.where(enough, value, torch.inf).argmin(0, keepdim=True)
    after = torch.where(enough, -torch.inf, value).argmax(0, keepdim=True)
    above, below = value.gather(0, before)[0], value.gather(0, after)[0]
    share = per_sample((above - target) / (above - below), group)
    ends = [points.gather(0, per_sample(at[0], group).expand(1, len(v)))[0] for at in (before, after)]
    inside = per_sample(total == target, group)  # where clipping v is enough
    return torch.where(inside | ~used, plain, torch.lerp(ends[0], ends[1], share))


def _small_simplex(v: Tensor, a: Tensor, target: Tensor, group: Tensor) -> Tensor:
    """``weighted_simplex`` for few samples: all pairs are compared, so large entries cost small ones no precision.

    sum_i a_i max(v_i - tau a_i, 0) falls with tau; its pieces end at the ratios v_j / a_j. Evaluate it at all of
    them, (n, n), and move from the last one below the target along its piece.
    """
    used = (group >= 0) & (a > torch.finfo(v.dtype).eps ** 2)  # smaller ones do not change a'x
    most = torch.finfo(v.dtype).max / 4
    ratio = torch.where(used, v / torch.where(used, a, 1), -torch.inf).clamp(-most, most)
    member = (group[:, None] == group) & used
    row = v - ratio[:, None] * a  # (n, n): v moved so that entry j is zero
    value = torch.where(member, a * row.clamp_min(0), 0).sum(1)
    fits = member & ((value < per_sample(target, group)) & used)[:, None]
    at = torch.where(fits, ratio[:, None], torch.inf).argmin(0)  # in the group of each entry
    slope = torch.where(member & (ratio >= ratio[:, None]), a * a, 0).sum(1)
    rise = (per_sample(target, group) - value[at]) / torch.where(used, slope[at], 1)
    x = row.gather(0, at[None])[0] + rise * a
    return torch.where(used, x, v).clamp_min(0)


def _box_band(
    v: Tensor, a: Tensor, upper: float, low: Tensor, high: Tensor, group: Tensor, num_groups: int
) -> Tensor:
    """Solve the problem in the module's docstring; ``low`` and ``high`` are (num_groups,)."""
    used = (group >= 0) & (a > torch.finfo(v.dtype).eps ** 2)  # smaller ones do not change a'x
    a = torch.where(used, a, 0)
    # No feasible x exceeds high / a: a finite cap keeps the breakpoints finite without changing the set.
    cap = torch.where(used, per_sample(high, group) / torch.where(used, a, 1), float("inf")).clamp_max(upper)
    total = group_sum(a * _clip(v, cap), group, num_groups)
    target = total.clamp(low, high)
    moved = _recentre(v, a, cap, target, group, num_groups)
    tau = _solve_shift(moved, a, torch.where(used, cap, 0), target, group, num_groups)
    for _ in range(2):  # Newton's method on this piece removes the rounding errors of the running sums
        x = moved - per_sample(tau, group) * a
        excess = group_sum(a * _clip(x, cap), group, num_groups) - target
        slope = group_sum(torch.where((x > 0) & (x < cap), a * a, 0), group, num_groups)
        there = tau + torch.where(slope > 0, excess / torch.where(slope > 0, slope, 1), 0)
        left = group_sum(a * _clip(moved - per_sample(there, group) * a, cap), group, num_groups) - target
        tau = torch.where(left.abs() < excess.abs(), there, tau)  # at the end of a piece a step may be worse
    inside = per_sample(target == total, group) | ~used  # where clipping v is enough
    return _clip(torch.where(inside, v, moved - per_sample(tau, group) * a), cap)


def _clip(x: Tensor, cap: Tensor) -> Tensor:
    return torch.minimum(x.clamp_min(0), cap)


def _recentre(v: Tensor, a: Tensor, cap: Tensor, target: Tensor, group: Tensor, num_groups: int) -> Tensor:
    """v (n,) moved along a, and clipped where the solution stays the same, so that tau is near zero for any v.

    Moving v along a changes only tau. Fill the caps in decreasing order of v / a until they reach the target: tau is
    below the ratio of the last entry filled (the pivot), by no more than the largest cap / a. Entries further below
    are zero and entries further above are at their cap, so their exact size does not matter.
    """
    used, owner = a > 0, group.clamp_min(0)
    safe = torch.where(used, a, 1)
    ratio = torch.where(used, v / safe, -torch.inf)
    room = torch.where(used, a * cap, 0)
    order = group_order(-ratio, owner, num_groups)
    sorted_owner = owner[order]
    whole = group_sum(room, owner, num_groups)
    filled = room[order].cumsum(0) - per_sample(whole.cumsum(0) - whole, sorted_owner)
    before = group_sum((filled < per_sample(target, sorted_owner)).long(), sorted_owner, num_groups)
    size, usable = (group_sum(x, owner, num_groups) for x in (torch.ones_like(owner), used.long()))
    at = size.cumsum(0) - size + torch.minimum(before, usable - 1).clamp_min(0)
    pivot = torch.where(usable > 0, ratio[order][at.clamp_max(len(v) - 1)], 0)
    reach = group_max(torch.where(used, cap / safe, 0), group, num_groups)
    return torch.maximum(torch.minimum(v - per_sample(pivot, group) * a, cap), -per_sample(reach, group) * a)


def _solve_shift(v: Tensor, a: Tensor, cap: Tensor, target: Tensor, group: Tensor, num_groups: int) -> Tensor:
    """tau (num_groups,) at which sum_i a_i clip(v_i - tau a_i, 0, cap_i) equals the target of each group.

    As tau grows, entry i leaves its cap at (v_i - cap_i) / a_i, where the sum begins to fall at rate a_i^2, and
    reaches zero at v_i / a_i, where it stops. Running sums over the sorted events give the value at each.
    """
    safe = torch.where(a > 0, a, 1)
    event = torch.cat([torch.where(a > 0, (v - cap) / safe, 0), torch.where(a > 0, v / safe, 0)])
    rate = torch.cat([-a * a, a * a])
    owner = torch.cat([group, group]).clamp_min(0)
    order = group_order(event, owner, num_groups)
    event, rate, owner = event[order], rate[order], owner[order]

    start = group_sum(a * cap, group, num_groups)  # the sum while every entry is at its cap
    slope = rate.cumsum(0)  # the rates of a group sum to zero, so the running sum starts at zero in each group
    fallen = (rate * event).cumsum(0) - per_sample(start.cumsum(0) - start, owner)
    value = per_sample(start, owner) + event * slope - fallen

    size = group_sum(torch.ones_like(event), owner, num_groups).long()
    first = size.cumsum(0) - size
    above = group_sum((value >= per_sample(target, owner)).to(v.dtype), owner, num_groups).long()
    at = (first + above.clamp_min(1) - 1).clamp_max(len(event) - 1)
    following = torch.minimum(at + 1, (first + size - 1).clamp_min(0))
    fall = -slope[at]
    tau = event[at] + torch.where(fall > 0, (value[at] - target) / torch.where(fall > 0, fall, 1), 0)
    return torch.minimum(torch.maximum(tau, event[at]), torch.maximum(event[following], event[at]))
