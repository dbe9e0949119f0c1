"""The tuned reference: chosen on draws of its own, and compared with the default on those of the table."""

from __future__ import annotations

from typing import Any

from benchmarks.gauntlet import tuned
from benchmarks.gauntlet.candidates import TUNED
from benchmarks.gauntlet.halves import allowed
from benchmarks.gauntlet.tasks import TASKS


def made(task: str, method: str, **values: float) -> dict[tuple[str, str, int], Any]:
    metric = TASKS[task].metric
    return {
        (task, method, int(seed[1:])): {"metrics": {metric: value}, "cpu_seconds": 1.0}
        for seed, value in values.items()
    }


def all_settings(task: str, value: float) -> dict[tuple[str, str, int], Any]:
    return {key: record for name in TUNED for key, record in made(task, name, s5=value, s6=value).items()}


def test_the_best_settings_on_their_own_draws_are_chosen_once_all_have_run() -> None:
    found = all_settings("cancer", 80.0) | made("cancer", "tuned-kl-join", s5=90.0, s6=78.0)
    found |= made("cancer", "tuned-mmd", s0=99.0, s1=99.0)  # on draws of the table: not looked at
    assert tuned.choose(found, "cancer") == "tuned-kl-join"
    del found["cancer", "tuned-squared", 6]
    assert tuned.choose(found, "cancer") is None
    assert tuned.to_choose(["cancer"], found) == [("cancer", "tuned-squared", 6)]
    assert tuned.to_compare(["cancer"], found) == []


def test_a_lower_rmse_is_chosen_and_compared_on_the_draws_of_the_table() -> None:
    task = "diabetes-units"
    found = all_settings(task, 70.0) | made(task, "tuned-squared", s5=60.0, s6=61.0)
    assert tuned.choose(found, task) == "tuned-squared"
    expected = [(task, name, seed) for seed in range(5) for name in ("tuned-squared", "default")]
    assert tuned.to_compare([task], found) == expected
    found |= made(task, "tuned-squared", s0=50.0, s1=80.0) | made(task, "default", s0=55.0, s1=80.0)
    row, *_, verdict = tuned.table(found, [task, "wine"]).splitlines()[2:]
    assert row.startswith("| diabetes-units (RMSE) | 2 | squared | 65.00 | 67.50 | -5.00 ± ")
    assert verdict == "The default is at most 0.5 below the tuned divergence on 0 of 1 tasks."


def test_half_a_point_below_counts_as_close() -> None:
    found = all_settings("cancer", 80.0) | made("cancer", "tuned-kl", s5=81.0)
    found |= made("cancer", "tuned-kl", s0=90.0) | made("cancer", "default", s0=89.5, s5=99.0)
    assert tuned.table(found, ["cancer"]).endswith("on 1 of 1 tasks.")
    found |= made("cancer", "default", s0=89.4)
    assert tuned.table(found, ["cancer"]).endswith("on 0 of 1 tasks.")
    assert tuned.table({}, ["cancer"]) == "No records yet."


def test_the_reference_is_no_candidate_and_runs_on_both_halves() -> None:
    for name in TUNED:
        assert allowed("zones", name, "default")
    assert not allowed("zones", "kl-join", "default")
    assert not allowed("fashion-60k-symmetric", "kl-join", "default")
    assert allowed("fashion-60k-symmetric", "default", "default")
    assert tuned.to_choose(["fashion-60k-symmetric"], {}) == []
