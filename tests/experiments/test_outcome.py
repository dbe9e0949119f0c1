"""The record of a run that has ended: its result, its curves, the spread of its weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from adiw.experiments.outcome import BINS, distribution, outcome


def test_a_run_in_one_record(finished: Callable[[str], Path]) -> None:
    folder = finished("adiw-kl")
    record = outcome(folder)
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


def test_a_run_that_died_before_its_first_epoch_has_no_curves(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text('{"status": "dead", "reason": "why"}')
    assert outcome(tmp_path) == {"status": "dead", "reason": "why", "curves": {}}


def test_all_weights_are_counted_and_those_beyond_the_end_in_the_last_bin() -> None:
    weights = np.array([0.0, 1.0, 1.0, 1.99, 50.0] + [1.0] * 995, np.float32)
    found = distribution(weights, np.zeros(1000, bool))
    assert (found["edges"][0], found["edges"][-1], len(found["edges"])) == (0, 2, BINS + 1)
    counts = found["groups"]["all"]["histogram"]
    assert (sum(counts), counts[0], counts[-1]) == (1000, 1, 2)
    assert found["groups"]["all"]["box"] == [1.0] * 5


@pytest.mark.parametrize("flipped", [[True, True, True], [True, False, False]])
def test_weights_that_are_no_numbers_and_empty_groups_are_left_out(flipped: list[bool]) -> None:
    found = distribution(np.array([0.5, np.nan, np.inf], np.float32), np.array(flipped))
    assert list(found["groups"]) == ["mislabelled"]
    assert (found["groups"]["mislabelled"]["count"], found["groups"]["mislabelled"]["mean"]) == (1, 0.5)
    assert distribution(np.full(3, np.nan, np.float32), np.array(flipped))["groups"] == {}


def test_truth_of_another_length_is_not_compared() -> None:
    assert list(distribution(np.ones(3, np.float32), np.array([True, False]))["groups"]) == ["all"]
