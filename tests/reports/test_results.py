"""The results model: which trials count in a cell, and the note on the others."""

from __future__ import annotations

import statistics
from typing import Any

import pytest

from adiw.experiments.run_record import LAST, summarise
from adiw.reports.results import Cell, MeanStd, Results, Trial
from adiw.reports.times import seconds_alone
from tests.reports.sweep_folder import recipe


def trial(number: int, status: str, curve: list[float | None], **more: Any) -> Trial:
    return Trial({"status": status, "curves": {"accuracy": curve}, "epochs": len(curve), **more}, number)


def results(cell: Cell, **more: Any) -> Results:
    places = [("r", "b"), ("r", "c"), ("s", "b"), ("s", "c")]
    cells = {place: Cell(*place) for place in places} | {(cell.row, cell.column): cell}
    return Results(recipe(["r", "s"], ["b", "c"], **more), cells)


def test_only_finished_trials_count_and_the_others_are_noted() -> None:
    trials = (trial(0, "done", [60.0]), trial(1, "done", [70.0]), trial(2, "dead", [10.0]), trial(3, "failed", []))
    cell = Cell("r", "c", trials, missing=(4, 5))
    assert cell.figure("accuracy") == (65, statistics.pstdev([60, 70]))
    assert cell.note == "1 dead, 1 failed, 2 missing"
    assert [cell.count(status) for status in ("done", "dead", "failed", "unfinished", "missing")] == [2, 1, 1, 0, 2]
    empty = Cell("s", "b", missing=(0,))
    assert (empty.figure("accuracy"), empty.note) == (None, "1 missing")
    assert Cell("s", "b").note == ""  # nothing was planned


def test_a_pooled_figure_is_over_the_last_ten_epochs_of_all_finished_trials() -> None:
    first, second = [0.0] * 5 + list(map(float, range(10))), [float(v) for v in range(20, 32)]
    cell = Cell("r", "c", (trial(0, "done", [*first]), trial(1, "done", [*second]), trial(2, "dead", [99.0])))
    pooled = first[-10:] + second[-10:]
    assert cell.figure("accuracy") == (statistics.fmean(pooled), statistics.pstdev(pooled))
    assert cell.means("accuracy") == {0: 4.5, 1: 26.5}
    assert cell.epochs == [12, 15]
    assert cell.figure("top5") is None


def test_the_figure_of_a_run_that_kept_its_best_epoch_is_that_of_this_epoch() -> None:
    best = [trial(k, "done", [50.0, 90.0 + 2 * k, 60.0], best={"accuracy": 90.0 + 2 * k}) for k in range(2)]
    last = trial(2, "done", [50.0, 60.0])
    assert Cell("r", "c", tuple(best)).figure("accuracy") == (91.0, 1.0)
    assert results(Cell("r", "c", tuple(best))).used_epochs == "the best epoch on held-out trusted samples"
    assert results(Cell("r", "c", (last,))).used_epochs == results(Cell("r", "c")).used_epochs == "the last 10 epochs"
    mixed = results(Cell("r", "c", (*best, last)))
    assert mixed.used_epochs == "the last 10 epochs or the best epoch on held-out trusted samples"


def test_a_figure_between_seeds_is_over_the_recorded_means() -> None:
    means = [60.004, 70.0, 95.0]
    trials = tuple(trial(k, "done", [round(mean, 1)] * 3, accuracy=mean) for k, mean in enumerate(means))
    cell = Cell("r", "c", trials, pooled=False)
    assert cell.figure("accuracy") == (statistics.fmean(means), statistics.stdev(means))
    assert Cell("r", "c", trials[:1], pooled=False).figure("accuracy") == (60.004, None)


def test_a_record_without_curves_has_its_mean_and_no_deviation() -> None:
    one = Trial({"status": "done", "accuracy": 71.0, "curves": None})
    assert one.last("accuracy") == [71.0]
    assert Cell("r", "c", (one,)).figure("accuracy") == (71.0, None)


def test_epochs_that_are_not_finite_do_not_count() -> None:
    one = trial(0, "done", [50.0, None, float("nan"), 60.0])
    assert one.last("accuracy") == [50.0, 60.0]
    assert one.mean("accuracy") == 55.0


def test_a_run_and_its_report_take_the_mean_of_the_same_epochs() -> None:
    curve = [float(k) for k in range(30)]
    recorded = summarise([{"accuracy": value, "top5": 99.0} for value in curve], [])["accuracy"]
    assert trial(0, "done", [*curve]).mean("accuracy") == recorded == statistics.fmean(curve[-LAST:])


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ([None, [61.5, 0.5]], MeanStd(61.5, 0.5)),
        ([None, 50], MeanStd(50, None)),
        ([None, None], None),
        ([None], None),
    ],
)
def test_the_papers_figure_is_that_of_the_column(figures: list[Any], expected: MeanStd | None) -> None:
    found = results(Cell("r", "c"), paper={"accuracy": {"r": figures}})
    assert found.paper("accuracy", "r", "c") == expected
    assert found.paper("accuracy", "s", "c") is found.paper("top5", "r", "c") is None


def test_the_methods_of_the_rows() -> None:
    found = results(Cell("r", "c"), common={"method": "diw", "epochs": 7})
    assert [found.method(row) for row in found.rows] == ["r", "s"]
    found.recipe["rows"][0]["settings"] = {}
    assert (found.method("r"), found.epochs) == ("diw", 7)


def test_seconds_are_those_of_runs_alone_on_the_device() -> None:
    trials = (trial(0, "done", [1.0], seconds_per_epoch=0.5), trial(1, "done", [1.0], seconds_per_epoch=0.7))
    trials += (trial(2, "dead", [1.0], seconds_per_epoch=9.0), trial(3, "done", [1.0], seconds_per_epoch=None))
    found = results(Cell("r", "c", trials))
    assert seconds_alone(found, "r", "c") == pytest.approx(0.6)
    assert seconds_alone(found, "s", "c") is None
    trials[0].record["side_by_side"] = 8
    assert seconds_alone(found, "r", "c") is None  # the runs slowed each other down
    timed = Results(found.recipe, found.cells, {("r", "c"): {"seconds_per_epoch": 0.25}})
    assert seconds_alone(timed, "r", "c") == 0.25
