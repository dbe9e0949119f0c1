"""Sweeps read into a page: the right record of each trial, and files that are not as they should be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adiw.reports.records import load_page
from tests.reports.folders import record, write_run, write_sweep


def test_the_last_ten_epochs_of_each_trial_are_pooled(tmp_path: Path) -> None:
    accuracies = [float(k) for k in range(30)]
    page = load_page(write_sweep(tmp_path, [record("KL", "a", 0, accuracies)], ["KL"], ["a"]))
    assert page.trials[0].values["accuracy"] == accuracies[-10:]
    assert (page.planned, page.pooled, page.title) == (2, True, "Label noise")


def test_a_record_without_curves_has_its_mean(tmp_path: Path) -> None:
    line = record("KL", "a", 0, [50.0, 60.0], curves={}, accuracy=58.0)
    page = load_page(write_sweep(tmp_path, [line], ["KL"], ["a"]))
    assert page.trials[0].values == {"accuracy": [58.0]}


def test_a_later_record_replaces_one_that_was_not_done(tmp_path: Path) -> None:
    lines = [record("KL", "a", 0, [1.0], "failed"), record("KL", "a", 1, [2.0])]
    lines += [record("KL", "a", 0, [3.0]), record("KL", "a", 1, [4.0], "dead"), record("KL", "a", 0, [5.0])]
    page = load_page(write_sweep(tmp_path, lines, ["KL"], ["a"]))
    assert [(trial.status, trial.values["accuracy"]) for trial in page.trials] == [("done", [3.0]), ("done", [2.0])]


def test_what_the_recipe_does_not_name_is_left_out(tmp_path: Path) -> None:
    lines = [record("KL", "a", 0, [1.0]), record("old", "a", 0, [1.0]), record("KL", "old", 0, [1.0])]
    assert len(load_page(write_sweep(tmp_path, lines, ["KL"], ["a"])).trials) == 1


def test_epochs_that_are_not_numbers_are_left_out(tmp_path: Path) -> None:
    line = record("KL", "a", 0, [], curves={"accuracy": [50.0, None, float("nan"), 60.0]})
    page = load_page(write_sweep(tmp_path, [line], ["KL"], ["a"]))
    assert page.trials[0].values["accuracy"] == [50, 60]


def test_folders_of_runs_are_used_where_they_are(tmp_path: Path) -> None:
    folder = write_sweep(tmp_path, [record("KL", "a", 0, [1.0]), record("KL", "a", 1, [1.0])], ["KL"], ["a"])
    write_run(folder / "runs" / "KL-a-1", "adiw-kl", [1.0])
    assert [trial.folder for trial in load_page(folder).trials] == [None, folder / "runs" / "KL-a-1"]


def test_a_sweep_that_has_only_begun(tmp_path: Path) -> None:
    folder = write_sweep(tmp_path, [], ["KL"], ["a"])
    (folder / "results.jsonl").unlink()
    assert load_page(folder).cell("KL", "a", "accuracy").note == "2 missing"


def test_a_cut_line_is_left_out_and_a_damaged_one_is_told(tmp_path: Path) -> None:
    folder = write_sweep(tmp_path, [record("KL", "a", 0, [1.0])], ["KL"], ["a"])
    with (folder / "results.jsonl").open("a") as file:
        file.write('{"row": "KL", "col')
    assert len(load_page(folder).trials) == 1
    with (folder / "results.jsonl").open("a") as file:
        file.write("\n")
    with pytest.raises(ValueError, match=r"results.jsonl, line 2 is damaged \(.*\): restore it"):
        load_page(folder)


def test_records_that_are_not_a_sweeps_are_told(tmp_path: Path) -> None:
    folder = write_sweep(tmp_path, [{"row": "KL"}], ["KL"], ["a"])
    with pytest.raises(ValueError, match="has no 'column'"):
        load_page(folder)
    recipe = json.loads((folder / "recipe.json").read_text())
    (folder / "recipe.json").write_text(json.dumps({k: v for k, v in recipe.items() if k != "trials"}))
    (folder / "results.jsonl").write_text("")
    with pytest.raises(ValueError, match="has no 'trials'"):
        load_page(folder)
    (folder / "recipe.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"no recipe\.json, which says what was planned"):
        load_page(folder)
