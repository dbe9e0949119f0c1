"""The shared suite rejects each wrong divergence of this folder, by the checks for its fault."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from adiw.divergences import Squared, SquaredProblem, Wasserstein
from adiw.matching.batches import MatchedBatches
from adiw.matching.kernels import Width
from adiw.testing import checks, training_checks
from adiw.testing.batches import LAYOUTS
from adiw.testing.suite import CHECKS
from tests.broken.counts_excluded import CountsExcluded
from tests.broken.leaking_classes import LeakingClasses
from tests.broken.loose_projection import LooseProjection
from tests.broken.rescaled_projection import RescaledProjection
from tests.broken.wrong_scale import WrongScale
from tests.broken.wrong_sign import WrongSign
from tests.divergences.cases import WIDTH, Case, mean_band, mean_one, non_negative, unit_mass

band = mean_band(1.5, 0.1)
BROKEN = {
    "wrong_scale": (
        Case(WrongScale(WIDTH, 0.02, 1.5, 0.1), band),
        {"check_gradient_is_the_derivative"},
    ),
    "wrong_sign": (
        Case(WrongSign(WIDTH, 0.1, 0.01), non_negative),
        {"check_gradient_is_the_derivative", "check_small_step_lowers_the_objective"},
    ),
    "loose_projection": (
        Case(LooseProjection(WIDTH, 0.02, 1.5, 0.1), band),
        {"check_projection_is_feasible"},
    ),
    "rescaled_projection": (
        Case(RescaledProjection(critic="exact", step_size=0.05), mean_one),
        {"check_projection_is_the_nearest_point"},
    ),
    "leaking_classes": (
        Case(LeakingClasses(WIDTH, 0.1, "optimum"), unit_mass(WIDTH)),
        {"check_groups_are_separate_problems", "check_start_is_feasible_with_mean_weight_one"},
    ),
    "counts_excluded": (
        Case(CountsExcluded(WIDTH, 0.02, 1.5, 0.1), band),
        {"check_groups_are_separate_problems", "check_excluded_samples_change_nothing"},
    ),
}


def rejecting(case: Case, layout: str) -> set[str]:
    """The names of the checks that this case fails."""
    failed = set()
    for check in CHECKS:
        try:
            check(case, LAYOUTS[layout](1))
        except AssertionError:
            failed.add(check.__name__)
    return failed


def test_the_checks_for_users_reject_a_broken_divergence() -> None:
    case, expected = BROKEN["wrong_sign"]
    chosen = [check for check in checks(type(case.divergence), case) if str(check).partition(",")[0] in expected]
    assert len(chosen) == len(expected) * 4  # on two layouts, of scalars and of vectors
    for check in chosen:
        with pytest.raises(AssertionError):
            check()


@dataclass(frozen=True)
class NoProjection(Squared):
    def problem(self, batches: MatchedBatches) -> SquaredProblem:
        problem = super().problem(batches)
        return cast(SquaredProblem, SimpleNamespace(objective=problem.objective, gradient=problem.gradient))


def test_the_functions_that_a_problem_lacks_are_named() -> None:
    with pytest.raises(AssertionError, match="lacks initial, project, weights: expected initial, objective"):
        checks(NoProjection)[0]()
    with pytest.raises(TypeError, match="divergence 'kl': expected a class"):
        checks("kl")  # type: ignore[arg-type]


@dataclass(frozen=True)
class TooFast(Wasserstein):
    """Its properties hold, but its default step makes the weights jump from one extreme to the other."""

    step_size: float = 1e6


def test_a_divergence_that_fails_in_training_is_rejected() -> None:
    first = next(training_checks(TooFast))
    with pytest.raises(AssertionError):
        first()


@dataclass(frozen=True)
class Overshooting(Squared):
    """It separates the samples, but its steps are too long for its wide kernels: all weights grow."""

    width: Width = 0.5
    step_size: float = 0.5


def test_a_divergence_whose_mean_weight_grows_is_rejected() -> None:
    for check in [check for check in training_checks(Overshooting) if "wrong" in str(check)]:
        with pytest.raises(AssertionError, match=r"mean weight .* expected from 0.1 to 5.0"):
            check()


@pytest.mark.parametrize("name", BROKEN)
def test_broken_divergences_are_rejected(name: str) -> None:
    case, expected = BROKEN[name]
    assert expected <= rejecting(case, "classes")


@pytest.mark.parametrize("name", ["wrong_scale", "wrong_sign", "loose_projection", "rescaled_projection"])
def test_broken_divergences_are_rejected_without_classes_too(name: str) -> None:
    case, expected = BROKEN[name]
    assert expected <= rejecting(case, "one group")


def test_every_file_here_is_run() -> None:
    files = {path.stem for path in Path(__file__).parent.glob("*.py")}
    assert files - {"__init__", "test_broken_divergences"} == BROKEN.keys()
