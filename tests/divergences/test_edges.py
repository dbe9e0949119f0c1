"""Edge cases: a mass of zero to divide by, and one group compared with several."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from adiw.divergences import KL, MMD, KLProblem, MMDProblem, Squared
from adiw.divergences.kl import Update
from adiw.matching.batches import MatchedBatches, match
from adiw.matching.projections import smallest_mass


def two_groups() -> MatchedBatches:
    generator = torch.Generator().manual_seed(0)
    z_train, z_val = (torch.randn(size, 1, generator=generator, dtype=torch.float64) for size in (8, 6))
    return match(z_train, z_val, torch.arange(8) % 2, torch.arange(6) % 2, num_groups=2)


@pytest.mark.parametrize("divergence", [KL(width=0.7), MMD(width=0.7), Squared(width=0.7)])
def test_two_groups_start_with_mean_weight_one_in_each(divergence: KL | MMD | Squared) -> None:
    batches = two_groups()
    problem = divergence.problem(batches)
    weights = problem.weights(problem.initial())
    for group in range(2):
        assert float(weights[batches.group_train == group].mean()) == pytest.approx(1, abs=1e-12)


def test_the_mass_of_two_groups_is_summed_separately() -> None:
    batches = two_groups()
    problem = KL(width=0.7).problem(batches)
    params = problem.project(torch.linspace(0.1, 2.0, 6, dtype=torch.float64))
    for group in range(2):
        own = batches.group_val == group
        assert float((problem.psi_bar * params)[own].sum()) == pytest.approx(1, abs=1e-12)


def one_centre(mass: Tensor, update: Update = "rescale") -> KLProblem:
    """One centre whose mean kernel over the training batch is ``mass``; the only training sample sits on it."""
    one, used = torch.ones(1, 1, dtype=mass.dtype), torch.tensor([True])
    return KLProblem(one, mass, one, one[0], used, used, 1, update)


def test_without_mass_the_rescaled_objective_has_the_plain_gradient() -> None:
    """At beta = 0 the mass cannot be rescaled, so its term in the objective is constant."""
    batches = two_groups()
    plain, optimum = (KL(0.7, update=update).problem(batches) for update in ("rescale", "optimum"))
    nothing = torch.zeros(6, dtype=torch.float64)
    assert torch.equal(optimum.gradient(nothing), plain.gradient(nothing))
    assert torch.equal(optimum.objective(nothing), plain.objective(nothing))


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_the_smallest_mass_counts_as_zero_for_weights_but_can_be_rescaled(factor: float) -> None:
    least = smallest_mass(torch.float64)
    problem = one_centre(torch.ones(1, dtype=torch.float64))
    params = torch.full((1,), factor * least, dtype=torch.float64)
    assert float(problem.project(params)) == 1
    uniform = float(problem.weights(params)) == 1
    assert uniform == (factor == 1)


def test_the_smallest_mass_adds_nothing_to_the_gradient_of_the_rescaled_objective() -> None:
    mass = torch.ones(1, dtype=torch.float64)
    params = smallest_mass(torch.float64) * mass
    plain, optimum = (one_centre(mass, update).gradient(params) for update in ("rescale", "optimum"))
    assert torch.equal(plain, optimum)


def test_the_nearest_feasible_point_of_two_groups_has_mass_one_in_each() -> None:
    batches = two_groups()
    problem = KL(width=0.7, update="euclidean").problem(batches)
    params = problem.project(torch.linspace(0.1, 2.0, 6, dtype=torch.float64))
    for group in range(2):
        own = batches.group_val == group
        assert float((problem.psi_bar * params)[own].sum()) == pytest.approx(1, abs=1e-12)


def test_kl_weights_far_from_every_centre_are_one() -> None:
    problem = one_centre(torch.zeros(1))
    assert problem.weights(torch.ones(1)).tolist() == [1.0]
    assert problem.initial().tolist() == [1.0]
    assert problem.project(torch.tensor([3.0])).tolist() == [1.0]  # the largest: no mass to rescale by


def test_local_mmd_steps_are_divided_by_the_number_of_neighbours() -> None:
    batches = match(torch.tensor([[0.0], [0.0], [0.0], [9.0]]), torch.tensor([[0.0]]))
    scale = MMD(width=1.0, step="local").problem(batches).step_scale
    assert scale is not None
    assert_close(scale, torch.tensor([1 / 3, 1 / 3, 1 / 3, 1.0]))
    assert MMD(width=1.0, step="plain").problem(batches).step_scale is None


@pytest.mark.parametrize(("n", "slack"), [(4, 0.5), (9, 2 / 3)])
def test_diws_slack_grows_with_the_batch(n: int, slack: float) -> None:
    batches = match(torch.zeros(n, 1, dtype=torch.float64), torch.zeros(2, 1, dtype=torch.float64))
    problem = MMD(width=1.0, upper=50.0).problem(batches)
    assert_close(problem.slack, torch.tensor([slack], dtype=torch.float64))
    low, high = (problem.project(torch.full((n,), value, dtype=torch.float64)).mean() for value in (0.0, 9.0))
    assert_close(torch.stack([low, high]), torch.tensor([1 - slack, 1 + slack], dtype=torch.float64))


def test_a_slack_above_one_allows_all_weights_to_be_zero() -> None:
    batches = match(torch.zeros(3, 1), torch.zeros(2, 1))
    problem = MMD(width=1.0, upper=4.0, slack=9.0).problem(batches)
    assert problem.project(torch.full((3,), -1.0)).tolist() == [0.0] * 3
    assert problem.project(torch.full((3,), 8.0)).tolist() == [4.0] * 3


def test_an_mmd_problem_has_no_step_scale_unless_it_is_given() -> None:
    one = torch.ones(1)
    assert MMDProblem(one[None], one, 50.0, one, torch.tensor([True])).step_scale is None


def test_more_centres_than_are_compared_in_pairs_keep_mass_one_in_each_group() -> None:
    """Above 1024 the nearest point is found by sorting, group by group."""
    generator = torch.Generator().manual_seed(0)
    z_train, z_val = (torch.randn(size, 1, generator=generator, dtype=torch.float64) for size in (8, 1030))
    batches = match(z_train, z_val, torch.arange(8) % 2, torch.arange(1030) % 2, num_groups=2)
    problem = KL(width=0.7, update="euclidean").problem(batches)
    params = problem.project(torch.randn(1030, generator=generator, dtype=torch.float64))
    for group in range(2):
        own = batches.group_val == group
        assert float((problem.psi_bar * params)[own].sum()) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_the_kernel_of_a_sample_with_itself_is_one(dim: int) -> None:
    """Distances of vectors are rounded, which would change a narrow kernel."""
    for seed in range(10):
        z = torch.randn(20, dim, generator=torch.Generator().manual_seed(seed))
        assert MMD(width=1e-3).problem(match(z, z)).K.diagonal().tolist() == [1.0] * 20
