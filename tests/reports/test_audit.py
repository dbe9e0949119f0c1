"""The audit's numbers: ranking, quality with ties, and runs that rank nothing."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adiw.reports.audit import load_audit, precision, write_csv
from tests.reports.folders import record, write_history, write_pictures, write_run, write_sweep

LABELS = [[10, 11, 12, 13], [0, 1, 0, 1], [0, 0, 0, 1], [1, 0, 0, 1]]  # original, given, true, predicted
HISTORY = [[1.0, 1.0, 1.0, 1.0], [2.0, 0.5, 0.0, 1.5], [2.0, 0.0, 0.0, 2.0]]


def audited(folder: Path, method: str = "adiw-kl", **settings: object) -> Path:
    return write_history(write_run(folder, method, [50.0] * 3, **settings), [1, 2, 3], HISTORY, LABELS)


def test_samples_are_ranked_by_their_history(tmp_path: Path) -> None:
    audit = load_audit(audited(tmp_path / "a"))
    assert audit.order.tolist() == [2, 1, 3, 0]  # both at zero in the end: the history decides
    assert audit.mean_weights.tolist() == [2.0, 0.25, 0.0, 1.75]  # without the warm-up epoch
    assert audit.scores[2] == 0


def test_the_file_has_a_line_for_each_sample(tmp_path: Path) -> None:
    folder = audited(tmp_path / "a")
    (folder / "classes.json").write_text('["ant", "a,\\"b"]')
    file = io.StringIO(newline="")
    write_csv(load_audit(folder), file)
    rows = list(csv.DictReader(io.StringIO(file.getvalue())))
    shown = ["rank", "original_index", "index", "given", "given_name", "predicted", "predicted_name"]
    numbers = ["weight", "mean_weight", "trust", "epoch_1", "epoch_2", "epoch_3"]
    assert list(rows[0]) == [*shown, "true", "true_name", *numbers]
    assert [row["original_index"] for row in rows] == ["12", "11", "13", "10"]
    second = rows[1]
    assert [second[key] for key in shown] == ["2", "11", "1", "1", 'a,"b', "0", "ant"]
    assert (second["true"], second["weight"], second["mean_weight"]) == ("0", "0", "0.25")
    assert [second[f"epoch_{epoch}"] for epoch in (1, 2, 3)] == ["1", "0.5", "0"]
    file = io.StringIO(newline="")
    write_csv(load_audit(folder), file, top=2)
    assert file.getvalue().count("\n") == 3


def test_names_that_begin_as_formulas_are_quoted(tmp_path: Path) -> None:
    folder = audited(tmp_path / "a")
    (folder / "classes.json").write_text('["=1+1", "-1"]')
    file = io.StringIO(newline="")
    write_csv(load_audit(folder), file)
    assert {row["given_name"] for row in csv.DictReader(io.StringIO(file.getvalue()))} == {"'=1+1", "-1"}


def test_quality_is_reported_if_true_labels_are_known(tmp_path: Path) -> None:
    quality = load_audit(audited(tmp_path / "a")).quality()
    assert quality == (pytest.approx(2 / 3), 0.0)  # sample 1 is wrong and second of four
    folder = audited(tmp_path / "b")
    np.save(folder / "labels.npy", np.array([LABELS[0], LABELS[1], LABELS[1], LABELS[3]]))
    audit = load_audit(folder)
    assert (audit.true, audit.quality()) == (None, None)
    file = io.StringIO(newline="")
    write_csv(audit, file)
    assert "true" not in file.getvalue().splitlines()[0].split(",")


@settings(deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=20))
def test_precision_lies_between_the_best_and_the_worst_order_of_ties(pairs: list[tuple[int, bool]]) -> None:
    levels, flipped = np.array([level for level, _ in pairs]), np.array([wrong for _, wrong in pairs])
    if not flipped.any():
        return
    found, k = precision(levels, flipped), int(flipped.sum())
    best = flipped[np.lexsort((~flipped, levels))][:k].mean()
    worst = flipped[np.lexsort((flipped, levels))][:k].mean()
    assert worst - 1e-12 <= found <= best + 1e-12
    if len(set(levels.tolist())) == 1:
        assert found == pytest.approx(flipped.mean())


def test_ties_in_trust_alone_are_broken_by_the_last_weight(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", "adiw-kl", [50.0])
    write_history(folder, [2], [[1.0, 1.0]], [[0, 1], [0, 1], [0, 0], [0, 0]])
    np.save(folder / "weights.npy", np.array([1.0001, 1.0], np.float32))  # equal in the history's precision
    assert load_audit(folder).quality() == (1.0, 1.0)


@pytest.mark.parametrize(
    ("method", "status", "message"),
    [
        ("uniform", "done", "uniform: all weights are equal: nothing to rank"),
        (
            "val-only",
            "done",
            "val-only weights only the trusted samples, on which it trains: nothing to rank",
        ),
        ("adiw-kl", None, "has not finished: continue it with adiw run --resume"),
        ("adiw-kl", "dead", r"is dead \(epoch 1: broken\): its weights say nothing about the labels"),
    ],
)
def test_runs_that_rank_nothing_are_refused(tmp_path: Path, method: str, status: str | None, message: str) -> None:
    weights = [1.0, 1.0] if method == "uniform" else [0.0, 1.0]
    folder = write_run(tmp_path / "a", method, [50.0], status, weights=weights)
    with pytest.raises(ValueError, match=message):
        load_audit(folder)


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    folder = audited(tmp_path / "a")
    np.save(folder / "labels.npy", np.zeros((4, 3), int))
    with pytest.raises(ValueError, match="differ in length"):
        load_audit(folder)


def test_a_run_without_snapshots_is_ranked_by_its_last_weights(tmp_path: Path) -> None:
    folder = audited(tmp_path / "a")
    np.save(folder / "weight_history.npy", np.zeros((0, 0), np.float16))
    (folder / "weight_history.json").write_text('{"epochs": []}')
    assert load_audit(folder).order.tolist() == [1, 2, 0, 3]


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
