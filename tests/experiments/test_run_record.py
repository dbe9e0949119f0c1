"""The record of a run that has ended: its figures, its curves, the distribution of its weights."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from adiw.experiments.run_record import BINS, run_record, summarise, weight_distribution


def rows(count: int) -> list[dict[str, float]]:
    return [{"accuracy": float(k), "top5": 50.0 + k} for k in range(count)]


def test_accuracy_is_the_mean_of_the_last_ten_epochs() -> None:
    summary = summarise(rows(25), [{"train_seconds": seconds} for seconds in (9.0, 1.0, 2.0, 30.0)])
    assert summary["accuracy"] == statistics.fmean(range(15, 25)) == 19.5
    assert summary["accuracy_std"] == pytest.approx(np.std(range(15, 25)))
    assert summary["top5"] == 69.5
    assert summary["epochs"] == 25
    assert summary["seconds_per_epoch"] == 2.0  # the median; the first epoch is excluded


def test_a_short_run_takes_all_its_epochs() -> None:
    assert summarise(rows(3), [{"train_seconds": 4.0}])["accuracy"] == 1.0
    assert summarise(rows(3), [{"train_seconds": 4.0}])["seconds_per_epoch"] == 4.0
    assert summarise([], [])["accuracy"] is None


def test_a_run_in_one_record(finished: Callable[[str], Path]) -> None:
    folder = finished("adiw-kl")
    record = run_record(folder)
    result = json.loads((folder / "result.json").read_text())
    assert result.items() <= record.items()
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert record["curves"]["accuracy"] == [round(row["accuracy"], 2) for row in rows]
    assert set(record["curves"]) == {"accuracy", "top5", "ess", "weight_mean", "weight_intact", "weight_mislabelled"}
    weights, labels = (np.load(folder / name) for name in ("weights.npy", "labels.npy"))
    groups = record["weights"]["groups"]
    assert groups["mislabelled"]["count"] == (labels[1] != labels[2]).sum()
    assert groups["intact"]["count"] + groups["mislabelled"]["count"] == len(weights)
    assert len(json.dumps(record, allow_nan=False)) < 10_000


def test_a_run_that_is_dead_before_its_first_epoch_has_no_curves(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text('{"status": "dead", "reason": "why"}')
    assert run_record(tmp_path) == {"status": "dead", "reason": "why", "curves": {}}


def test_all_weights_are_counted_and_those_beyond_the_end_in_the_last_bin() -> None:
    weights = np.array([0.0, 1.0, 1.0, 1.99, 50.0] + [1.0] * 995, np.float32)
    found = weight_distribution(weights, np.zeros(1000, bool))
    assert (found["edges"][0], found["edges"][-1], len(found["edges"])) == (0, 2, BINS + 1)
    counts = found["groups"]["all"]["histogram"]
    assert (sum(counts), counts[0], counts[-1]) == (1000, 1, 2)
    assert found["groups"]["all"]["box"] == [1.0] * 5


@pytest.mark.parametrize("flipped", [[True, True, True], [True, False, False]])
def test_weights_that_are_not_finite_and_empty_groups_are_excluded(flipped: list[bool]) -> None:
    found = weight_distribution(np.array([0.5, np.nan, np.inf], np.float32), np.array(flipped))
    assert list(found["groups"]) == ["mislabelled"]
    assert (found["groups"]["mislabelled"]["count"], found["groups"]["mislabelled"]["mean"]) == (1, 0.5)
    assert weight_distribution(np.full(3, np.nan, np.float32), np.array(flipped))["groups"] == {}


def test_truth_of_another_length_is_not_compared() -> None:
    assert list(weight_distribution(np.ones(3, np.float32), np.array([True, False]))["groups"]) == ["all"]
