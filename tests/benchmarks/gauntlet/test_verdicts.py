"""The tool that measures verdicts and alarms: one tiny task, and its counts from made-up records."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.gauntlet import verdicts
from benchmarks.gauntlet.task import Length, Sources
from benchmarks.gauntlet.tasks import TASKS


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
    assert record["faults"]["collapsed"] is False


def test_held_out_samples_are_not_trained_on(tiny: str) -> None:
    whole = TASKS[tiny].splits(Sources(), 0)[0]
    parts = [verdicts.hold_out(whole, number, 4) for number in range(4)]
    held_out = torch.cat([part.x_test[:count] for part, count in parts])
    assert torch.equal(held_out.sort(0).values, whole.x_trusted.sort(0).values)
    for part, count in parts:
        assert len(part.x_trusted) + count == len(whole.x_trusted)
        assert torch.equal(part.x_test[count:], whole.x_test)


def record(answer: str, held_out: float, test: float, found: tuple[str, ...] = (), **faults: bool) -> dict[str, Any]:
    sides = {"low": -1.0, "high": 1.0}
    rows = [[{"difference": d, **{k: v + d for k, v in sides.items()}}] for d in (held_out, test)]
    wrong = {"worse than uniform": test < -1, "collapsed": False} | faults
    head = {"task": "cancer", "method": "kl", "seed": 0, "answer": answer, "alarms": list(found), "faults": wrong}
    return {**head, "held_out": rows[0], "test": rows[1]}


def test_wrong_verdicts_and_false_alarms_are_counted() -> None:
    text = verdicts.summary(
        [
            record("helps", 5.0, 4.0),
            record("helps", 5.0, -0.5),
            record("does no good", -5.0, -3.0, ("collapsed",), collapsed=True),
            record("does no good", -5.0, 2.0),
            record("cannot tell", 0.5, 3.0, ("predicted classes",)),
            record("cannot tell", 0.5, 0.0),
        ]
    )
    assert "'helps' is wrong: 1 of 2 (50.0%)" in text
    assert "'does no good' is wrong: 1 of 2 (50.0%)" in text
    assert "from uniform: 1 of 4 (25.0%)" in text
    assert "collapses with an alarm: 1 of 1 (100.0%)" in text
    assert "runs with a false alarm: 1 of 6 (16.7%)" in text


def test_what_is_recorded_is_not_run_again(tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = record("helps", 5.0, 4.0) | {"method": "default", "folds": 1, "settings": {"task": TASKS[tiny].settings()}}
    results = tmp_path / "verdicts.jsonl"
    results.write_text(json.dumps(made) + "\n")
    verdicts.main(["--task", tiny, "--method", "default", "--seeds", "1", "--results", str(results)])
    assert "verdicts: 1; helps 1" in capsys.readouterr().out
    assert len(results.read_text().splitlines()) == 1
