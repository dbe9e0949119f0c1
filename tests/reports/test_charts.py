"""The numbers behind the charts."""

from __future__ import annotations

from pathlib import Path

from adiw.reports.charts import chart_data
from adiw.reports.folders import read_results
from tests.reports.folders import record, write_run, write_sweep


def test_curves_are_means_of_finished_trials_and_the_others_are_separate(tmp_path: Path) -> None:
    records = [record("KL", "b", 0, [10.0, 20.0, 30.0]), record("KL", "b", 1, [20.0, 40.0])]
    records += [record("KL", "b", 2, [99.0, 1.0], "dead")]
    folder = write_sweep(tmp_path, records, ["WA", "KL"], ["a", "b"], trials=3)
    data = chart_data(read_results(folder))
    assert (data["rows"], data["columns"]) == (["WA", "KL"], ["a", "b"])
    (cell,) = data["cells"]
    assert (cell["row"], cell["column"]) == (1, 1)
    assert cell["curves"]["accuracy"] == {
        "mean": [15, 30, 30],
        "low": [10, 20, 30],
        "high": [20, 40, 30],
        "others": [{"status": "dead", "values": [99, 1]}],
    }
    assert cell["curves"]["weight_intact"]["mean"] == [1.5] * 3


def test_weights_are_shares_of_their_group(tmp_path: Path) -> None:
    (cell,) = chart_data(read_results(write_sweep(tmp_path, [record("KL", "a", 0, [1.0])], ["KL"], ["a"])))["cells"]
    assert cell["weights"] == {
        "edges": [0, 1, 2, 3],
        "groups": {
            "intact": {"count": 30, "mean": 1.5, "shares": [0, 0.3333, 0.6667]},
            "mislabelled": {"count": 10, "mean": 0.25, "shares": [0.8, 0.2, 0]},
        },
    }


def test_equal_weights_and_those_of_dead_runs_are_not_drawn(tmp_path: Path) -> None:
    write_run(tmp_path / "1", "uniform", [50.0], weights=[1.0, 1.0])
    write_run(tmp_path / "2", "adiw-kl", [50.0], "dead")
    write_run(tmp_path / "3", "diw", [50.0])
    data = chart_data(read_results(tmp_path))
    assert {data["rows"][cell["row"]]: cell["weights"] is not None for cell in data["cells"]} == {
        "uniform": False,
        "diw": True,
        "adiw-kl": False,
    }


def test_numbers_that_are_not_finite_become_gaps(tmp_path: Path) -> None:
    line = record("KL", "a", 0, [1.0], curves={"accuracy": [1.0, None, 3.0], "ess": [float("inf"), 2.0]})
    (cell,) = chart_data(read_results(write_sweep(tmp_path, [line], ["KL"], ["a"])))["cells"]
    assert cell["curves"]["accuracy"]["mean"] == [1, None, 3]
    assert cell["curves"]["ess"]["mean"] == [None, 2]
