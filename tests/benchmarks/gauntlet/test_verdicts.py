"""The tools that measure verdicts and alarms: one tiny task, and their counts from made-up records."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from adiw.reweighting.diagnostics import alarm_checks
from adiw.reweighting.diagnostics.alarms import Alarm
from benchmarks import audit
from benchmarks.gauntlet import alarms, verdicts, watched
from benchmarks.gauntlet.methods import METHODS
from benchmarks.gauntlet.running import Skipped
from benchmarks.gauntlet.task import Length, Sources
from benchmarks.gauntlet.tasks import TASKS
from benchmarks.gauntlet.watched import Watched


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(TASKS, "cancer", replace(TASKS["cancer"], length=Length(120, 32)))
    return "cancer"


@pytest.mark.parametrize("folds", [1, 3])
def test_verdicts_are_recorded_fold_by_fold_with_their_truth(tiny: str, folds: int) -> None:
    keys = [[(tiny, method, 0, folds, fold) for method in ("default", "kl")] for fold in range(folds)]
    made = [record for unit in keys for record in watched.judge(unit, Sources())]
    records = json.loads(json.dumps(made))
    trusted = len(TASKS[tiny].splits(Sources(), 0)[0].y_trusted)
    for method in ("default", "kl"):
        own = [record for record in records if record["method"] == method]
        assert [record["fold"] for record in own] == list(range(folds))
        pooled = verdicts.pooled(own)[0]
        assert pooled.n == (round(0.3 * trusted) if folds == 1 else trusted)
        digits = "".join(record["held_out"]["uniform"] for record in own)
        assert pooled.score == pytest.approx(100 * digits.count("1") / len(digits))
        given = verdicts.verdict(own)
        assert given["answer"] in ("helps", "does no good", "cannot tell")
        ahead = [record["test"][0]["difference"] for record in own]
        assert given["test"][0]["difference"] == pytest.approx(sum(ahead) / folds)


def test_references_of_a_fold_are_as_if_trained_alone(tiny: str) -> None:
    task = TASKS[tiny]
    split, _ = watched.hold_out(task.splits(Sources(), 0)[0], 0, 5)
    found = watched.reference_predictions(split, task, 3)
    assert list(found) == list(watched.REFERENCES)
    for name in watched.REFERENCES:
        torch.manual_seed(3)
        assert torch.equal(found[name], METHODS[name].run(split, task.length).predicted)


def test_squared_errors_are_recorded_of_a_regression(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "diabetes-units"
    monkeypatch.setitem(TASKS, name, replace(TASKS[name], length=Length(40, 32)))
    records: list[Any] = [*watched.judge([(name, "default", 0, 2, fold) for fold in (0,)], Sources())]
    json.dumps(records)
    errors = records[0]["held_out"]
    apart = [b - a for a, b in zip(errors["adiw"], errors["mixed"], strict=True)]
    assert verdicts.pooled(records)[-1].difference == pytest.approx(sum(apart) / len(apart))
    assert records[0]["faults"].keys() == {"worse than uniform"}


def test_held_out_samples_are_not_trained_on(tiny: str) -> None:
    whole = TASKS[tiny].splits(Sources(), 0)[0]
    parts = [watched.hold_out(whole, number, 4) for number in range(4)]
    held_out = torch.cat([part.x_test[:count] for part, count in parts])
    assert torch.equal(held_out.sort(0).values, whole.x_trusted.sort(0).values)
    for part, count in parts:
        assert len(part.x_trusted) + count == len(whole.x_trusted)
        assert torch.equal(part.x_test[count:], whole.x_test)


def test_the_alarms_of_a_training_are_recorded_with_their_truth(tiny: str) -> None:
    (record,) = watched.judge([(tiny, "default", 0, 5, 0)], Sources())
    assert isinstance(record, dict)
    assert record["faults"].keys() == {
        "collapsed", "predicted classes", "memorising", "weights follow a class", "worse than uniform",
    }  # fmt: skip
    assert record["faults"]["collapsed"] is False
    assert record["figures"]["excess"] < 0.2


def test_an_alarm_of_the_verdict_is_recorded(tiny: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Alarm("collapsed", "one class for all")
    monkeypatch.setattr(alarm_checks, "collapse_in_training", lambda *counts: [found])
    (record,) = watched.judge([(tiny, "default", 0, 5, 0)], Sources())
    assert isinstance(record, dict)
    assert record["alarms"] == ["collapsed"]


def test_faults_are_those_of_the_test_samples_and_the_true_labels(tiny: str) -> None:
    split = TASKS[tiny].splits(Sources(), 0)[0]

    def found(predicted: torch.Tensor, weights: torch.Tensor) -> set[str]:
        figures = alarms.class_figures(Watched(predicted, weights, [], [0.9, 0.9]), split)
        return {name for name, wrong in alarms.faults(figures).items() if wrong}

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
        head = {"task": "cancer", "method": "kl", "seed": 0, "fold": 0}
        head |= {"alarms": list(names), "test": [{"low": difference - 1}]}
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


def test_what_is_recorded_is_not_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    better = {"adiw": "1" * 40, "uniform": "1" * 10 + "0" * 30}
    head = {"task": "cancer", "method": "default", "seed": 0, "folds": 1, "fold": 0, "held_out": better}
    head |= {
        "test": [{"difference": 20.0, "low": 10.0, "high": 30.0}],
        "alarms": [],
        "faults": {alarms.UNIFORM: False},
    }
    own = {"task": TASKS["cancer"].settings(), "method": watched.method_settings("default")}
    made = head | {"settings": own | {"references": ["uniform"]}}
    results = tmp_path / "verdicts.jsonl"
    results.write_text(json.dumps(made) + "\n")
    words = ["--task", "cancer", "--method", "default", "--folds", "1", "--results", str(results)]
    verdicts.main(words)
    assert "verdicts: 1; helps 1" in capsys.readouterr().out
    assert len(results.read_text().splitlines()) == 1


@pytest.mark.parametrize(("module", "name"), [(verdicts, "default"), (audit, "adiw")])
def test_records_of_an_older_default_are_removed_and_made_again(
    module: Any, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = {"task": TASKS["cancer"].settings(), "method": watched.method_settings("default")}
    records = [
        {"task": "cancer", "method": name, "seed": seed, "folds": 5, "fold": 0, "settings": settings}
        for seed, settings in enumerate([own, own | {"method": "an older one"}, {"task": own["task"]}])
    ]
    assert [module.is_fresh(record) for record in records] == [True, False, False]
    results = tmp_path / "records.jsonl"
    results.write_text("".join(json.dumps(record) + "\n" for record in records[1:]))
    module.main(["--task", "cancer", "--method", name, "--seeds", "3", "--budget", "0s", "--results", str(results)])
    assert "2 records of other settings are removed from records.jsonl" in capsys.readouterr().out
    assert results.read_text() == ""


def test_a_budget_that_is_spent_leaves_runs_to_the_next_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--task", "cancer", "--seeds", "1", "--budget", "0s", "--results", str(tmp_path / "records.jsonl")]
    verdicts.main(words)
    audit.main(words)
    assert "verdicts: 0" in capsys.readouterr().out
    assert not (tmp_path / "records.jsonl").exists()


def test_methods_on_a_fold_are_made_together() -> None:
    parsed = argparse.Namespace(seeds=1, folds=2, half=None, task=["wine", "zones"], method=None)
    assert [[key[:2] + key[3:] for key in unit] for unit in verdicts.units(parsed)] == [
        [(task, method, 2, fold) for method in ("default", "kl", "mmd")]
        for fold in (0, 1)
        for task in ("wine", "zones")
    ]


def test_quality_of_the_audit_is_recorded(tiny: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (record,) = audit.measure([(tiny, "linear-trusted", 0)], Sources())
    assert isinstance(record, dict)
    assert 0.5 < record["metrics"]["auroc"] <= 1
    assert audit.measure([("digits-clean", "linear-trusted", 0)], Sources()) == []
    missing = Sources(tmp_path, tmp_path)
    assert audit.measure([("adult-flipped", "adiw", 0)], missing) == [
        Skipped("adult-flipped", "adult/train.csv.gz is not in the folder of --tables")
    ]
