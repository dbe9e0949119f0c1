"""A time limit with a reserve, and the format of durations."""

from __future__ import annotations

import time

import pytest

from adiw.experiments.budget import Budget, seconds_of
from adiw.experiments.settings import SettingsError


@pytest.mark.parametrize(("seconds", "spent_after"), [(1500.0, 1425.0), (100.0, 80.0), (10.0, 5.0)])
def test_a_budget_is_spent_when_only_the_reserve_is_left(
    monkeypatch: pytest.MonkeyPatch, seconds: float, spent_after: float
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    budget = Budget(seconds)
    now += spent_after - 0.1
    assert not budget.spent()
    now += 0.2
    assert budget.spent()


@pytest.mark.parametrize(("text", "seconds"), [("25m", 1500), ("90s", 90), ("1h30m", 5400), ("0.5h", 1800)])
def test_durations(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "25", "m", "25 m", "25m3", "-5m", "0s", "5d"])
def test_texts_that_are_not_durations_are_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="--budget must be"):
        seconds_of(text)
