"""Reading runs back, and one line for each method."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from adiw.reports.results import by_method, load_result, load_results
from tests.reports.folders import write_run


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    result = load_result(write_run(tmp_path / "a", "adiw-kl", [50.0, 70.0], weights=[2.0, 0.25]))
    assert (result.method, result.status, result.accuracy, result.seconds_per_epoch) == ("adiw-kl", "done", 60.0, 0.5)
    assert [row["accuracy"] for row in result.metrics] == [50.0, 70.0]
    assert result.weights().tolist() == [2.0, 0.25]
    assert result.flipped().tolist() == [False, True]


def test_without_a_result_a_run_is_unfinished(tmp_path: Path) -> None:
    result = load_result(write_run(tmp_path / "a", "diw", [50.0], status=None))
    assert result.status == "unfinished"
    assert math.isnan(result.accuracy)
    assert len(result.metrics) == 1


def test_a_run_that_has_only_begun_can_be_read(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "diw", [], status=None)
    (folder / "metrics.jsonl").unlink()
    assert load_result(folder).metrics == []


def test_a_line_cut_by_a_full_disk_is_left_out(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "diw", [50.0, 60.0], status=None)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 3, "accu')
    assert [row["accuracy"] for row in load_result(folder).metrics] == [50.0, 60.0]


def test_all_runs_below_a_folder(tmp_path: Path) -> None:
    for name in ("b/two", "a/one", "c"):
        write_run(tmp_path / name, name, [1.0])
    assert [result.method for result in load_results(tmp_path)] == ["a/one", "b/two", "c"]
    for nothing in (tmp_path / "a" / "one" / "missing", tmp_path / "empty"):
        with pytest.raises(FileNotFoundError, match="no runs found below"):
            load_results(nothing)


def runs(tmp_path: Path) -> Callable[..., None]:
    count = iter(range(100))

    def write(method: str, accuracies: list[float], status: str | None = "done", seconds: float = 0.5) -> None:
        write_run(tmp_path / f"{next(count):02}", method, accuracies, status, seconds)

    return write


def test_a_line_for_each_method(tmp_path: Path) -> None:
    write = runs(tmp_path)
    for accuracy, seconds in ((60.0, 1.0), (70.0, 2.0), (95.0, 6.0)):
        write("adiw-kl", [accuracy], "done", seconds)
    write("adiw-kl", [10.0], "dead")
    write("adiw-kl", [90.0], None)
    write("uniform", [40.0])
    write("broken", [10.0], "dead")
    write("another", [20.0], None)
    rows = by_method(load_results(tmp_path), ["uniform", "absent", "adiw-kl"])
    assert [row.method for row in rows] == ["uniform", "adiw-kl", "another", "broken"]
    uniform, kl, another, broken = rows
    assert kl.accuracies == [60.0, 70.0, 95.0]
    assert kl.mean == 75.0
    assert kl.std == pytest.approx(statistics.stdev([60, 70, 95]))
    assert kl.seconds_per_epoch == 3.0
    assert (kl.dead, kl.unfinished, kl.note) == (1, 1, "1 dead, 1 unfinished")
    assert (uniform.mean, uniform.note) == (40.0, "")
    assert math.isnan(uniform.std)
    assert (broken.note, another.note) == ("1 dead", "1 unfinished")
    assert all(math.isnan(value) for value in (broken.mean, broken.std, broken.seconds_per_epoch))


def test_arrays_are_not_unpickled(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "diw", [50.0])
    np.save(folder / "weights.npy", np.array([{"code": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle"):
        load_result(folder).weights()
