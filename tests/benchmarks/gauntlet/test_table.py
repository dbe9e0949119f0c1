"""The table: paired intervals by hand, the best alternative, and the page that is drawn from the records."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gauntlet import records, table, tuned
from benchmarks.gauntlet.__main__ import PAGES
from benchmarks.gauntlet.halves import read_halves
from benchmarks.gauntlet.table import Gain
from benchmarks.gauntlet.tasks import TASKS


def made(task: str, **methods: list[float]) -> dict[tuple[str, str, int], Any]:
    return {
        (task, method.replace("_", "-"), seed): {"metrics": {TASKS[task].metric: value}}
        for method, found in methods.items()
        for seed, value in enumerate(found)
    }


def test_docstrings_of_other_packages_than_uniforms_are_left_out() -> None:
    found = made("docstrings", uniform=[50.0, 51.0], kl=[52.0, 53.0, 54.0]) | made("cancer", kl=[90.0])
    for (_, method, seed), record in found.items():
        other = method == "kl" and seed == 1
        record["versions"] = {"torch": "2.13.0" if other else "2.11.0", "numpy": "2.5", "scikit-learn": "1.9"}
    assert table.comparable(found).keys() == found.keys() - {("docstrings", "kl", 1), ("docstrings", "kl", 2)}


def test_the_paired_interval_by_hand() -> None:
    found = table.gain({0: 91.0, 1: 93.0, 2: 95.0, 9: 0.0}, {0: 90.0, 1: 91.0, 2: 92.0, 8: 0.0}, "accuracy")
    # Differences 1, 2, 3: mean 2, standard deviation 1, and the 97.5% point of t with 2 degrees is 4.302653.
    assert found is not None
    assert (found.mean, found.seeds) == (2.0, 3)
    assert found.half == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)


def test_a_lower_rmse_is_a_gain_in_percent() -> None:
    found = table.gain({0: 45.0, 1: 60.0}, {0: 50.0, 1: 80.0}, "rmse")
    assert found is not None
    assert found.mean == pytest.approx((10 + 25) / 2)
    assert found.half == pytest.approx(12.7062047 * math.sqrt(112.5) / math.sqrt(2), rel=1e-6)


def test_without_common_seeds_there_is_no_gain_and_with_one_no_interval() -> None:
    assert table.gain({0: 1.0}, {1: 1.0}, "accuracy") is None
    found = table.gain({0: 2.0}, {0: 1.0}, "accuracy")
    assert found is not None
    assert str(found) == "+1.00"
    assert not table.is_worse(found, "accuracy")


@pytest.mark.parametrize(
    ("mean", "half", "metric", "worse"),
    [
        (-1.0, 0.6, "accuracy", True),
        (-1.0, 0.8, "accuracy", False),
        (-1.5, 0.6, "rmse", False),
        (-2, 0.5, "rmse", True),
    ],
)
def test_worse_means_an_interval_wholly_below_the_goal(mean: float, half: float, metric: str, worse: bool) -> None:
    assert table.is_worse(Gain(mean, half, 5), metric) is worse


def test_the_best_alternative_is_the_highest_accuracy_or_the_lowest_rmse() -> None:
    for task, expected in (("cancer", "fine-tune"), ("diabetes-units", "uniform")):
        found = made(task, uniform=[80.0, 82.0], fine_tune=[90.0, 80.0], linear=[99.0, 1.0], kl=[95.0, 97.0])
        compared = table.compare(found, task, "kl")
        assert compared is not None
        assert compared[1] == expected


def test_the_tables_show_means_errors_and_gains() -> None:
    found = made("cancer", uniform=[80.0, 82.0], fine_tune=[90.0, 86.0], kl=[95.0, 97.0])
    means = table.means_table(found, ["cancer"], ["uniform", "mixed", "fine-tune", "kl"])
    assert means.splitlines()[2:] == [
        "| uniform | 81.00 (1.00) |",
        "| fine-tune | 88.00 (2.00) |",
        "| kl | **96.00** (1.00) |",
    ]
    row = table.default_table(found, ["cancer", "wine"], "kl").splitlines()[2]
    assert row.startswith("| cancer | 2 | 96.00 | +15.00 ± 0.00 | fine-tune | +8.00 ± ")
    ranked = table.ranking(found, ["cancer"], ["uniform", "kl"]).splitlines()[2:]
    assert [line.split(" | ")[0] for line in ranked] == ["| kl", "| uniform"]
    assert table.default_table(found, ["wine"], "kl") == "No records of kl yet."


def test_a_method_that_has_not_run_everywhere_is_not_ranked() -> None:
    found = made("cancer", uniform=[80.0], kl=[95.0]) | made("wine", uniform=[80.0])
    assert "kl" not in table.ranking(found, ["cancer", "wine"], ["uniform", "kl"])


def test_points_and_percents_are_averaged_apart() -> None:
    found = made("cancer", uniform=[80.0], kl=[81.0]) | made("wine", uniform=[80.0], kl=[83.0])
    found |= made("diabetes-units", uniform=[200.0], kl=[50.0])
    rows = table.ranking(found, ["cancer", "wine", "diabetes-units"], ["uniform", "kl"]).splitlines()[2:]
    assert rows[0] == "| kl | 3 | 1 | +2.00 | +75.00 | +1.00 (cancer) | 0 | +2.00 | +75.00 | 3 | 3 |"
    alone = table.ranking(found, ["diabetes-units"], ["uniform", "kl"])
    assert "| kl | 1 | 1 | - | +75.00 | +75.00 (diabetes-units) | 0 | - | +75.00 | 1 | 1 |" in alone


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_is_drawn_from_the_records(page: Path) -> None:
    drawn = table.draw(page.read_text(), records.read(TASKS), read_halves(), tuned.recorded_table())
    assert drawn == page.read_text(), "run python -m benchmarks.gauntlet --draw"
