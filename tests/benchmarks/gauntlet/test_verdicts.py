"""The tools that measure verdicts and alarms: one tiny task, and their counts from made-up records."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.gauntlet import alarms, verdicts
from benchmarks.gauntlet.task import Length, Sources
from benchmarks.gauntlet.tasks import TASKS
from benchmarks.gauntlet.watched import Watched


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(TASKS, "cancer", replace(TASKS["cancer"], length=Length(120, 32)))
    return "cancer"


@pytest.mark.parametrize("folds", [1, 3])
def test_one_verdict_is_recorded_with_its_truth(tiny: str, folds: int) -> None:
    record = verdicts.judge((tiny, "default", 0, folds), Sources())
    json.dumps(record)
    trusted = len(TASKS[tiny].splits(Sources(), 0)[0].y_trusted)
    assert [each["n"] for each in record["held_out"]] == [round(0.3 * trusted) if folds == 1 else trusted] * 4
    assert [each["n"] for each in record["test"]] == [142] * 4
    assert record["answer"] in ("helps", "does no good", "cannot tell")


def test_held_out_samples_are_not_trained_on(tiny: str) -> None:
    whole = TASKS[tiny].splits(Sources(), 0)[0]
    parts = [verdicts.hold_out(whole, number, 4) for number in range(4)]
    held_out = torch.cat([part.x_test[:count] for part, count in parts])
    assert torch.equal(held_out.sort(0).values, whole.x_trusted.sort(0).values)
    for part, count in parts:
        assert len(part.x_trusted) + count == len(whole.x_trusted)
        assert torch.equal(part.x_test[count:], whole.x_test)


def test_the_alarms_of_a_training_are_recorded_with_their_truth(tiny: str) -> None:
    record = alarms.judge((tiny, "default", 0), Sources())
    json.dumps(record)
    assert record["faults"].keys() == {
        "collapsed", "predicted classes", "memorising", "weights follow a class", "worse than uniform",
    }  # fmt: skip
    assert record["faults"]["collapsed"] is False
    assert record["test"]["n"] == 142


def test_faults_are_those_of_the_test_samples_and_the_true_labels(tiny: str) -> None:
    split = TASKS[tiny].splits(Sources(), 0)[0]

    def found(predicted: torch.Tensor, weights: torch.Tensor) -> set[str]:
        watched = Watched(predicted, weights, [], None, [0.9, 0.9])  # type: ignore[arg-type]
        return {name for name, wrong in alarms.faults(alarms.class_figures(watched, split)).items() if wrong}

    errors, ones = (~split.wrong).float(), torch.ones(len(split.y_train))
    assert found(split.y_test, errors) == set()
    assert found(split.y_test, torch.where(split.truth == 1, 5.0, 0.1)) == {"weights follow a class"}
    assert found(0 * split.y_test, ones) == {"collapsed", "predicted classes"}


def verdict(answer: str, held_out: float, test: float) -> dict[str, Any]:
    rows = [[{"difference": d, "low": d - 1, "high": d + 1}] for d in (held_out, test)]
    return {"task": "cancer", "method": "kl", "seed": 0, "answer": answer, "held_out": rows[0], "test": rows[1]}


def test_wrong_verdicts_are_counted() -> None:
    text = verdicts.summary(
        [
            verdict("helps", 5.0, 4.0),
            verdict("helps", 5.0, -0.5),
            verdict("does no good", -5.0, -3.0),
            verdict("does no good", -5.0, 2.0),
            verdict("cannot tell", 0.5, 3.0),
            verdict("cannot tell", 0.5, 0.0),
        ]
    )
    assert "'helps' is wrong: 1 of 2 (50.0%)" in text
    assert "'does no good' is wrong: 1 of 2 (50.0%)" in text
    assert "from uniform: 1 of 4 (25.0%)" in text


def test_missed_and_false_alarms_are_counted() -> None:
    def raised(difference: float, *names: str, **wrong: bool) -> dict[str, Any]:
        head = {"task": "cancer", "method": "kl", "seed": 0, "alarms": list(names), "test": {"low": difference - 1}}
        return head | {"faults": {"worse than uniform": difference < -1, "collapsed": False} | wrong}

    text = alarms.summary(
        [
            raised(-3.0, "collapsed", collapsed=True),
            raised(-3.0, collapsed=True),
            raised(0.0, "predicted classes"),
            raised(3.0, "memorising", memorising=True),
            raised(3.0),
        ]
    )
    assert "collapses with their alarm: 1 of 2 (50.0%)" in text
    assert "with a false alarm: 1 of 5 (20.0%)" in text
    assert "worse than uniform, with an alarm: 1 of 2 (50.0%)" in text
    assert "better than uniform, with an alarm: 1 of 2 (50.0%)" in text


def test_what_is_recorded_is_not_run_again(tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = verdict("helps", 5.0, 4.0) | {"method": "default", "folds": 1}
    made |= {"settings": {"task": TASKS[tiny].settings()}}
    results = tmp_path / "verdicts.jsonl"
    results.write_text(json.dumps(made) + "\n")
    verdicts.main(["--task", tiny, "--method", "default", "--seeds", "1", "--results", str(results)])
    assert "verdicts: 1; helps 1" in capsys.readouterr().out
    assert len(results.read_text().splitlines()) == 1
