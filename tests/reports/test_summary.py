"""The sentences of a report's summary."""

from __future__ import annotations

import json
from pathlib import Path

from adiw.reports.folders import read_results
from adiw.reports.summary import sentences
from tests.reports.folders import record, write_run, write_sweep


def test_runs_that_all_finished(tmp_path: Path) -> None:
    write_run(tmp_path / "1", "uniform", [60.0])
    write_run(tmp_path / "2", "adiw-kl", [70.0])
    write_run(tmp_path / "3", "oracle", [80.0])  # it has the true weights
    assert sentences(read_results(tmp_path)) == [
        "3 runs of 3 methods, all finished.",
        "Highest mean accuracy 70.00% with adiw-kl.",
    ]


def test_runs_none_of_which_finished(tmp_path: Path) -> None:
    write_run(tmp_path / "1", "diw", [10.0], "dead")
    write_run(tmp_path / "2", "l2r", [20.0], None)
    assert sentences(read_results(tmp_path)) == ["2 runs of 2 methods: none finished, 1 dead, 1 unfinished."]


def test_a_single_run_has_a_sentence_on_its_weights(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "adiw-kl", [50.0] * 5 + [60.0] * 10)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    lines[-1] |= {"weight_intact": 1.5, "weight_mislabelled": 0.1}
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    one, accuracy, weights = sentences(read_results(folder))
    assert one == "One run, finished."
    assert accuracy.endswith("%, mean of the last 10 of 15 epochs.")
    assert weights == (
        "Effective sample size at the end: 16 of 2 samples. "
        "Mean weight of intact samples 1.50, of mislabelled samples 0.10."
    )
    assert sentences(read_results(write_run(tmp_path / "b", "adiw-kl", [], None))) == ["One run, unfinished."]
    dead = sentences(read_results(write_run(tmp_path / "c", "adiw-kl", [10.0], "dead")))
    assert dead[0] == "One run, dead: epoch 1: broken."


def test_an_alarm_that_the_page_shows_is_not_said_again(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "adiw-kl", [10.0], "dead")
    result = json.loads((folder / "result.json").read_text())
    result |= {"reason": "the network has collapsed: one class", "alarms": [{"name": "a", "message": "one class"}]}
    (folder / "result.json").write_text(json.dumps(result))
    assert sentences(read_results(folder))[0] == "One run, dead: the network has collapsed."


def test_compared_runs_are_told_apart_by_their_data(tmp_path: Path) -> None:
    for data in ("ants", "bees"):
        folder = write_run(tmp_path / data, "adiw", [10.0], dataset=data)
        result = json.loads((folder / "result.json").read_text())
        (folder / "result.json").write_text(json.dumps(result | {"verdict": {"comparison": [{"method": "uniform"}]}}))
    found = " ".join(sentences(read_results(tmp_path)))
    assert "The compared run of adiw on ants: Accuracy" in found
    assert "The compared run of adiw on bees: Accuracy" in found


def test_a_sweep_has_sentences_on_missing_runs_and_the_paper(tmp_path: Path) -> None:
    records = [record(row, "a", 0, [value]) for row, value in (("KL", 60.0), ("WA", 61.0))]
    records += [record("KL", "b", trial, [5.0], "dead") for trial in range(5)]
    paper = {"accuracy": {"KL": [[62.5, 1.0], None], "WA": [[60.5, 1.0], None]}}
    folder = write_sweep(tmp_path, records, ["KL", "WA"], ["a", "b"], paper=paper, trials=5)
    assert sentences(read_results(folder)) == [
        "20 runs of 2 methods in 2 settings: 2 finished, 5 dead, 13 missing.",
        "a: highest mean accuracy on the test set 61.00% with WA (in the paper: 62.50% with KL).",
        "1 of 2 figures reach the paper's (differences from -2.50 to +0.50).",
    ]
