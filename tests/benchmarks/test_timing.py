"""Cases alternate, ratios are taken within a round, and a case that fails does not stop the others."""

from __future__ import annotations

import time

import pytest
import torch

import timing
from timing import Plan, Timed, interleave


def test_cases_alternate_after_a_trial_round() -> None:
    calls: list[tuple[str, int]] = []

    def timer(name: str, seconds: float) -> timing.Timer:
        def measure(times: int) -> float:
            calls.append((name, times))
            return seconds

        return measure

    plan = Plan(rounds=2, times=20, limit=1.0)
    timed = interleave({"a": timer("a", 0.001), "b": timer("b", 0.25)}, plan)
    assert calls == [("a", 1), ("b", 1), ("a", 10), ("b", 2), ("a", 10), ("b", 2)]
    assert timed["a"].seconds == [0.001, 0.001]
    assert timed["b"].median == 0.25


def test_timers_that_choose_their_repetitions_have_no_trial_round() -> None:
    calls: list[int] = []
    interleave({"a": lambda times: calls.append(times) or 1.0}, Plan(rounds=2, times=0))  # type: ignore[func-returns-value]
    assert len(calls) == 2


def test_a_failing_case_is_skipped_with_its_error() -> None:
    turns = iter([1.0, 1.0])
    timed = interleave({"bad": lambda times: next(turns), "good": lambda times: 2.0}, Plan(rounds=3, times=3))
    assert timed["bad"].error == "StopIteration"
    assert timed["bad"].median is None
    assert timed["good"].seconds == [2.0, 2.0, 2.0]


def test_the_ratio_is_that_of_the_rounds() -> None:
    # The second round is slow: the ratio of the medians is 1, the median of the ratios 2.
    case, base = Timed([2.0, 8.0, 2.0]), Timed([1.0, 4.0, 2.0])
    assert case.over(base) == 2.0
    assert case.over(Timed(error="failed")) is None
    assert Timed([1.0], error="failed").over(base) is None


def test_only_the_first_round_starts_after_the_deadline() -> None:
    timed = interleave({"a": lambda times: 1.0}, Plan(rounds=9, times=9), deadline=time.monotonic() - 1)
    assert timed["a"].seconds == [1.0]


def test_a_repeated_step_is_run_once_more_than_counted() -> None:
    calls: list[int] = []
    seconds = timing.repeated(lambda: calls.append(1), torch.device("cpu"))(4)
    assert len(calls) == 5
    assert seconds >= 0


@pytest.mark.parametrize(("seconds", "runs"), [(1e-6, 34), (0.05, 5), (10.0, 1)])
def test_rounds_fit_into_the_limit(seconds: float, runs: int) -> None:
    assert timing.QUICK.per_round(seconds) == runs
