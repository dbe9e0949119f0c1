"""The audit of a run's folder: its numbers and sentences, and folders that have none."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest

from adiw.reports.audit import load_audit, quality_line, sentences, title_of
from tests.reports.folders import record, write_audit, write_history, write_pictures, write_run, write_sweep

LABELS = [[10, 11, 12, 13], [0, 1, 0, 1], [0, 0, 0, 1], [1, 0, 0, 1]]  # original, given, true, predicted
HISTORY = [[1.0, 1.0, 1.0, 1.0], [2.0, 0.5, 0.0, 1.5], [2.0, 0.0, 0.0, 2.0]]


def audited(folder: Path, method: str = "adiw-kl", **settings: object) -> Path:
    write_history(write_run(folder, method, [50.0] * 3, **settings), [1, 2, 3], HISTORY, LABELS)
    return write_audit(folder, [0.1, 2.0, 3.0, 0.5], source=LABELS[0])


def test_samples_are_ranked_by_their_losses(tmp_path: Path) -> None:
    audit = load_audit(audited(tmp_path / "a"))
    assert audit.order.tolist() == [2, 1, 3, 0]
    assert audit.more["mean_weight"].tolist() == [2.0, 0.25, 0.0, 1.75]  # without the warm-up epoch
    assert audit.weights is not None
    assert audit.weights.tolist() == [2.0, 0.0, 0.0, 2.0]


def test_the_file_has_a_line_for_each_sample(tmp_path: Path) -> None:
    folder = audited(tmp_path / "a")
    (folder / "classes.json").write_text('["ant", "a,\\"b"]')
    file = io.StringIO(newline="")
    load_audit(folder).to_csv(file)
    rows = list(csv.DictReader(io.StringIO(file.getvalue())))
    shown = ["rank", "check", "number", "numbering", "index", "given", "given_name", "predicted", "predicted_name"]
    numbers = ["confidence", "trust", "mean_loss", "weight", "mean_weight", "epoch_1", "epoch_2", "epoch_3"]
    assert list(rows[0]) == [*shown, "suggested", "suggested_name", "true", "true_name", *numbers]
    assert [row["number"] for row in rows] == ["12", "11", "13", "10"]
    second = rows[1]
    assert [second[key] for key in shown] == ["2", "", "11", "row of t.csv", "1", "1", 'a,"b', "0", "ant"]
    assert (second["true"], second["weight"], second["mean_weight"]) == ("0", "0", "0.25")
    assert [second[f"epoch_{epoch}"] for epoch in (1, 2, 3)] == ["1", "0.5", "0"]
    file = io.StringIO(newline="")
    load_audit(folder).to_csv(file, top=2)
    assert file.getvalue().count("\n") == 3


def test_quality_is_reported_if_true_labels_are_known(tmp_path: Path) -> None:
    audit = load_audit(audited(tmp_path / "a"))
    assert audit.quality() == (pytest.approx(2 / 3), 0.0)  # sample 1 is wrong and second of four
    assert quality_line(audit).startswith("1 labels are known to be wrong: AUROC 0.6667; 0.0% of the 1 least")
    folder = audited(tmp_path / "b")
    np.save(folder / "labels.npy", np.array([LABELS[0], LABELS[1], LABELS[1], LABELS[3]]))
    audit = load_audit(folder)
    assert (audit.true, audit.quality()) == (None, None)
    assert quality_line(audit).startswith("How good this ranking is cannot be measured")
    file = io.StringIO(newline="")
    audit.to_csv(file)
    assert "true" not in file.getvalue().splitlines()[0].split(",")


def test_the_sentences_say_what_to_check_and_whose_numbers_they_are(tmp_path: Path) -> None:
    audit = load_audit(audited(tmp_path / "a", dataset="insects"))
    assert audit.advice.startswith("No cut-off is suggested: the trusted samples were not trained on")
    found = sentences(audit)
    assert found[0] == audit.advice
    assert "The number of a sample is its row of t.csv." in found
    assert any("prediction differs from 2 of the labels" in text for text in found)
    assert title_of(tmp_path / "a") == "Label audit: adiw-kl on insects"
    assert title_of(audited(tmp_path / "b", dataset="csv", path="my/t.csv")) == "Label audit: adiw-kl on my/t.csv"
    write_audit(tmp_path / "a", [0.1, 2.0, 3.0, 0.5], trusted={"unseen": [0.1, 3.0]})
    assert "2 trusted samples are no clear evidence" in str(load_audit(tmp_path / "a"))


def test_a_run_of_an_earlier_version_has_no_audit(tmp_path: Path) -> None:
    folder = audited(tmp_path / "a")
    (folder / "audit.npy").unlink()
    with pytest.raises(ValueError, match=r"has no audit\.npy, which an earlier version of adiw did not write"):
        load_audit(folder)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (None, "has not finished: continue it with adiw run --resume"),
        ("dead", r"is dead \(epoch 1: broken\): its losses do not rank the labels"),
    ],
)
def test_runs_that_did_not_end_well_are_refused(tmp_path: Path, status: str | None, message: str) -> None:
    folder = write_run(tmp_path / "a", "adiw-kl", [50.0], status)
    with pytest.raises(ValueError, match=message):
        load_audit(folder)


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    folder = audited(tmp_path / "a")
    np.save(folder / "labels.npy", np.zeros((4, 3), int))
    with pytest.raises(ValueError, match="differ in length"):
        load_audit(folder)


def test_a_run_without_snapshots_has_its_last_weights_only(tmp_path: Path) -> None:
    folder = audited(tmp_path / "a")
    np.save(folder / "weight_history.npy", np.zeros((0, 0), np.float16))
    (folder / "weight_history.json").write_text('{"epochs": []}')
    assert {name: values.tolist() for name, values in load_audit(folder).more.items()} == {
        "mean_weight": [2.0, 0.0, 0.0, 2.0]
    }


def test_folders_that_are_not_a_runs_name_the_runs_that_they_have(tmp_path: Path) -> None:
    for i in range(7):
        write_run(tmp_path / "several" / str(i), "adiw-kl", [50.0])
    with pytest.raises(ValueError, match=r"holds several runs: audit one of its runs: .*/0, .*/4 and 2 more$"):
        load_audit(tmp_path / "several")
    sweep = write_sweep(tmp_path / "sweep", [record("KL", "a", t, [1.0]) for t in (0, 1)], ["KL"], ["a"])
    with pytest.raises(ValueError, match="is a sweep: no run's folder is below it"):
        load_audit(sweep)
    write_pictures(write_run(sweep / "runs" / "KL-a-1", "adiw-kl", [1.0]), ["ant"])
    with pytest.raises(ValueError, match=r"audit one of its runs: \S+/runs/KL-a-1 \(KL, a, trial 1\)$"):
        load_audit(sweep)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"it has no config.json\): no run's folder is below it"):
        load_audit(tmp_path / "empty")
    with pytest.raises(FileNotFoundError, match="is not a folder: name the folder of a finished run"):
        load_audit(tmp_path / "nothing")
