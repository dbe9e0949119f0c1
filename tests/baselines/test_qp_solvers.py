"""The solvers of DIW's quadratic program against cvxopt and each other."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from adiw.baselines import DIW
from adiw.baselines.diw import kernel_mean_matching
from adiw.baselines.qp_solvers import SOLVERS, resolve_solver
from adiw.divergences import MMDProblem
from adiw.matching.batches import match
from adiw.matching.groups import masked
from tests.missing_packages import hide

LOSSES = ("start", "middle", "memorised", "shifted")
WIDTHS = (0.01, 0.1, "quantile")


def make_losses(kind: str, n: int, m: int) -> tuple[Tensor, Tensor]:
    """Typical training and validation losses, with 40% label noise in the training set."""
    generator = torch.Generator().manual_seed(3)
    wrong = torch.arange(n) < 0.4 * n

    def exponential(size: int) -> Tensor:
        return -torch.rand(size, generator=generator, dtype=torch.float64).log()

    def normal(size: int) -> Tensor:
        return torch.randn(size, generator=generator, dtype=torch.float64)

    if kind == "start":
        return 2.3 + 0.05 * normal(n), 2.3 + 0.05 * normal(m)
    if kind == "middle":
        return torch.where(wrong, 2 + normal(n).abs(), 0.5 * exponential(n)), 0.5 * exponential(m)
    if kind == "memorised":
        return torch.exp(2 * normal(n) - 8), torch.exp(2 * normal(m) - 7)
    return 3 * normal(n).abs(), 0.05 * normal(m).abs()


def make_problem(kind: str, width: object, n: int = 128, m: int = 64) -> MMDProblem:
    z_train, z_val = make_losses(kind, n, m)
    return kernel_mean_matching(match(z_train[:, None], z_val[:, None]), width)  # type: ignore[arg-type]


def check_constraints(problem: MMDProblem, weights: Tensor) -> None:
    weights = weights[masked(problem.group, torch.ones_like(weights)) > 0]
    slack = (len(weights) ** 0.5 - 1) / len(weights) ** 0.5
    assert bool((weights >= 0).all())
    assert bool((weights <= 50).all())
    assert abs(float(weights.mean()) - 1) <= slack + 1e-9


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", LOSSES)
def test_solvers_agree(kind: str, width: object) -> None:
    problem = make_problem(kind, width)
    found = {name: solve(problem) for name, solve in SOLVERS.items()}
    best = problem.objective(found["cvxopt"])
    for name, weights in found.items():
        check_constraints(problem, weights)
        assert float((problem.objective(weights) - best) / best.abs()) < 1e-4, name
    # The objective is almost flat at the optimum: cvxopt's solution is not better than the interior point's.
    assert float((problem.objective(found["gpu"]) - best) / best.abs()) < 1e-9


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", LOSSES)
def test_interior_point_meets_the_optimality_conditions(kind: str, width: object) -> None:
    """At the optimum of a convex problem a projected-gradient step changes nothing."""
    problem = make_problem(kind, width)
    weights = SOLVERS["gpu"](problem)
    back = problem.project(weights - problem.gradient(weights) / (2 * problem.K.sum(1).max()))
    assert float((back - weights).abs().max()) < 1e-6


@pytest.mark.parametrize("n", [8, 64])
def test_iterations_after_the_optimum_do_not_move_away(n: int) -> None:
    """Far from the validation losses the mean is at its lower limit, where rounding errors matter first."""
    for seed in range(40):
        generator = torch.Generator().manual_seed(seed)
        z_train, z_val = torch.rand(2, n, 1, generator=generator, dtype=torch.float64) * 2
        problem = kernel_mean_matching(match(z_train, z_val - 4), 0.01)
        weights = SOLVERS["gpu"](problem)
        check_constraints(problem, weights)
        back = problem.project(weights - problem.gradient(weights) / (2 * problem.K.sum(1).max()))
        assert float((back - weights).abs().max()) < 1e-7, seed


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("n", [1, 2, 3, 17])
def test_small_batches(name: str, n: int) -> None:
    problem = make_problem("middle", 0.5, n=n)
    weights = SOLVERS[name](problem)
    check_constraints(problem, weights)
    if n == 1:
        torch.testing.assert_close(weights, torch.ones(1).double())


@pytest.mark.parametrize("name", SOLVERS)
def test_equal_losses(name: str) -> None:
    ones = torch.ones(6, 1).double()
    problem = kernel_mean_matching(match(ones, ones), 0.01)
    torch.testing.assert_close(SOLVERS[name](problem), torch.ones(6).double(), rtol=0, atol=1e-3)


@pytest.mark.parametrize("name", SOLVERS)
def test_excluded_samples(name: str) -> None:
    z_train, z_val = make_losses("middle", 40, 30)
    alone = SOLVERS[name](kernel_mean_matching(match(z_train[:, None], z_val[:, None]), 0.5))
    with_nonfinite = torch.cat([z_train, torch.tensor([float("nan"), float("inf")])])[:, None]
    problem = kernel_mean_matching(match(with_nonfinite, z_val[:, None]), 0.5)
    weights = SOLVERS[name](problem)
    check_constraints(problem, weights)
    part = MMDProblem(problem.K[:40, :40], problem.k[:40], 50.0, problem.slack, None)
    difference = part.objective(weights[:40]) - part.objective(alone)
    assert abs(float(difference / part.objective(alone))) < 1e-5


@pytest.mark.parametrize("name", SOLVERS)
def test_no_sample_is_included(name: str) -> None:
    problem = kernel_mean_matching(match(torch.full((3, 1), float("nan")).double(), torch.ones(2, 1).double()), 0.5)
    assert bool(SOLVERS[name](problem).isfinite().all())


@pytest.mark.parametrize("name", SOLVERS)
def test_two_runs_agree_bit_for_bit(name: str) -> None:
    problem = make_problem("middle", 0.01, n=256)
    assert torch.equal(SOLVERS[name](problem), SOLVERS[name](problem))


def test_an_optimum_at_the_upper_bound() -> None:
    problem = replace(make_problem("shifted", 0.1), upper=5.0)
    found = {name: solve(problem) for name, solve in SOLVERS.items()}
    assert float(found["gpu"].max()) == pytest.approx(5.0)
    for weights in found.values():
        torch.testing.assert_close(problem.objective(weights), problem.objective(found["gpu"]), rtol=1e-5, atol=0)


def test_a_solver_that_stops_early_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules["adiw.baselines.qp_solvers"].OPTIONS["osqp"], "max_iter", 1)
    with pytest.warns(UserWarning, match="osqp stopped before it converged"):
        check_constraints(problem := make_problem("middle", 0.01), SOLVERS["osqp"](problem))


@pytest.mark.parametrize(("name", "missing"), [("cvxopt", "qpsolvers"), ("cvxopt", "cvxopt"), ("osqp", "osqp")])
def test_a_missing_package_is_an_error_that_names_it(
    name: str, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide(monkeypatch, missing)
    with pytest.raises(ImportError, match=r'pip install "adiw\[qp\]"'):
        resolve_solver(name)
    model = torch.nn.Linear(1, 2)
    val_set = torch.utils.data.TensorDataset(torch.zeros(1, 1), torch.zeros(1))
    with pytest.raises(ImportError, match=r'pip install "adiw\[qp\]"'):
        DIW(model, torch.nn.CrossEntropyLoss(reduction="none"), val_set, 3, solver=name)  # type: ignore[arg-type]
    resolve_solver("gpu")


def test_a_solver_without_a_solution_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = SimpleNamespace(x=None, found=False)
    monkeypatch.setattr("qpsolvers.solve_problem", lambda *given, **options: nothing)
    with pytest.raises(RuntimeError, match=r'osqp found no solution for this batch .* try solver="gpu"'):
        SOLVERS["osqp"](make_problem("middle", 0.01))
