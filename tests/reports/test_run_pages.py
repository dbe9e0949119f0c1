"""Runs sorted into rows and columns."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from adiw.reports.records import load_page
from adiw.reports.results import load_results
from adiw.reports.run_pages import run_page
from tests.reports.folders import write_run


def test_rows_are_methods_in_their_order_and_columns_are_the_data(tmp_path: Path) -> None:
    for i, (method, shift) in enumerate([("oracle", "pair:0.3"), ("mine", "pair:0.3"), ("uniform", "symmetric:0.4")]):
        write_run(tmp_path / str(i), method, [50.0], dataset="digits", shift=shift)
    page = load_page(tmp_path)
    assert page.rows == ["uniform", "oracle", "mine"]
    assert page.columns == ["digits, pair:0.3", "digits, symmetric:0.4"]
    assert [len(page.of(row, page.columns[0])) for row in page.rows] == [0, 1, 1]
    assert page.title == "digits, pair:0.3, digits, symmetric:0.4"
    assert run_page(load_results(tmp_path), "Mine", ["mine"]).rows[0] == "mine"


def test_runs_that_differ_in_more_than_the_seed_are_not_taken_for_seeds(tmp_path: Path) -> None:
    for i, (width, lr) in enumerate([(0.5, 0.1), (0.5, 0.1), (2.0, 0.1)]):
        write_run(tmp_path / str(i), "adiw-kl", [50.0], seed=i, width=width, lr=lr)
    write_run(tmp_path / "9", "uniform", [50.0], width=None, lr=0.2)
    page = load_page(tmp_path)
    assert page.rows == ["uniform", "adiw-kl (width 0.5)", "adiw-kl (width 2.0)"]
    assert len(page.of("adiw-kl (width 0.5)", page.columns[0])) == 2


def test_a_trial_has_what_its_folder_has(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "adiw-kl", [50.0, 70.0], flipped=[False] * 3 + [True], weights=[2, 2, 1, 0])
    trial = load_page(folder).trials[0]
    assert (trial.status, trial.values, trial.seconds, trial.folder) == ("done", {"accuracy": [60.0]}, 0.5, folder)
    assert trial.curves == {"accuracy": [50.0, 70.0], "ess": [2.0, 3.0]}
    assert trial.weights is not None
    groups = trial.weights["groups"]
    assert {name: (group["count"], sum(group["histogram"])) for name, group in groups.items()} == {
        "intact": (3, 3),
        "mislabelled": (1, 1),
    }


def test_weights_beyond_the_axis_are_in_the_last_bin_and_without_truth_there_is_one_group(tmp_path: Path) -> None:
    weights = [0.0] * 199 + [50.0]
    folder = write_run(tmp_path / "a", "adiw-kl", [50.0], flipped=[False] * 200, weights=weights)
    found = load_page(folder).trials[0].weights
    assert found is not None
    assert found["edges"][-1] == 2
    assert list(found["groups"]) == ["all"]
    assert found["groups"]["all"]["histogram"][0] == 199
    assert found["groups"]["all"]["histogram"][-1] == 1


def test_weights_that_are_not_numbers_are_not_drawn(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "adiw-kl", [50.0], "dead")
    np.save(folder / "weights.npy", np.array([np.nan, 1.0], np.float32))
    assert load_page(folder).trials[0].weights is None
    (folder / "weights.npy").unlink()  # a run that died before its first epoch
    assert load_page(folder).trials[0].weights is None


def test_facts_are_the_settings_that_all_share(tmp_path: Path) -> None:
    for i in range(2):
        folder = write_run(tmp_path / str(i), "adiw-kl", [50.0], seed=i, lr=0.1, cap=None)
        result = json.loads((folder / "result.json").read_text())
        (folder / "result.json").write_text(json.dumps({**result, "commit": f"c{i}", "hardware": {"cpus": 2}}))
    facts = dict(load_page(tmp_path).facts)
    assert facts == {"method": "adiw-kl", "lr": "0.1", "hardware": "cpus 2", "commit": "c0; c1"}
