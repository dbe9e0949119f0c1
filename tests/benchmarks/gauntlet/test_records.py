"""Records are appended, resumed and kept apart by settings; a candidate does not see the confirmation half."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import adiw
from benchmarks.gauntlet import __main__ as command
from benchmarks.gauntlet import halves, records, running
from benchmarks.gauntlet.halves import RefusedError
from benchmarks.gauntlet.methods import METHODS
from benchmarks.gauntlet.task import Sources
from benchmarks.gauntlet.tasks import TASKS, own_tasks


def record(task: str = "cancer", method: str = "uniform", seed: int = 0, value: float = 1.0) -> dict[str, Any]:
    settings = {"task": TASKS[task].settings(), "method": ""}
    metrics = {TASKS[task].metric: value}
    key = {"task": task, "method": method, "seed": seed}
    return key | {"metrics": metrics, "settings": settings, "cpu_seconds": 2.0}


def test_records_are_appended_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    assert records.read(TASKS, path) == {}
    first, second = record(seed=0), record(seed=1, value=2.0)
    records.append(first, path)
    records.append(second, path)
    assert records.read(TASKS, path) == {("cancer", "uniform", 0): first, ("cancer", "uniform", 1): second}


def test_a_cut_line_is_lost_alone(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    records.append(record(seed=0), path)
    with path.open("a") as file:
        file.write(json.dumps(record(seed=1))[:40])
    records.append(record(seed=2), path)
    assert [seed for _, _, seed in records.read(TASKS, path)] == [0, 2]


def test_records_that_are_not_wanted_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    for seed in range(3):
        records.append(record(seed=seed), path)
    before = path.stat().st_mtime_ns
    assert len(records.keep(path, lambda row: True)) == 3
    assert path.stat().st_mtime_ns == before
    assert records.keep(path, lambda row: row["seed"] != 1) == [record(seed=0), record(seed=2)]
    assert list(records.read(TASKS, path).values()) == [record(seed=0), record(seed=2)]
    assert records.keep(tmp_path / "none.jsonl", lambda row: True) == []


def test_a_record_counts_while_its_task_has_the_same_settings(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    records.append(record(), path)
    longer = replace(TASKS["cancer"], length=replace(TASKS["cancer"].length, steps=99))
    assert records.read(TASKS | {"cancer": longer}, path) == {}
    assert len(records.read(TASKS, path)) == 1


def test_a_record_of_a_divergence_counts_while_its_defaults_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    settings = {"task": TASKS["cancer"].settings()}
    today = record(method="kl") | {"settings": settings | {"method": records.settings_of(adiw.divergences.KL)}}
    former = record(method="kl", seed=1) | {"settings": settings | {"method": "KL(width=7.0)"}}
    for made in (today, former):
        records.append(made, path)
    assert records.read(TASKS, path) == {("cancer", "kl", 0): today}


def test_what_is_recorded_is_not_planned_again() -> None:
    recorded = {("cancer", "uniform", 0): record()}
    keys = running.plan(["cancer"], ["uniform", "kl"], range(2), recorded, None)
    assert keys == [("cancer", "kl", 0), ("cancer", "uniform", 1), ("cancer", "kl", 1)]
    assert running.estimate(keys, recorded) == 2.0 + 2 * running.GUESS


def test_methods_run_on_the_tasks_that_they_fit() -> None:
    assert running.plan(["digits-clean"], ["linear", "cleanlab"], [0], {}, None) == [("digits-clean", "cleanlab", 0)]
    assert running.plan(["diabetes-units"], ["linear", "cleanlab"], [0], {}, None) == [
        ("diabetes-units", "linear", 0)
    ]


def test_a_run_resumes_where_the_records_end(tmp_path: Path) -> None:
    """Through the command, in a process of its own, on the cheapest methods."""
    path = tmp_path / "results.jsonl"
    words = ["--task", "cancer", "--method", "linear", "--method", "linear-trusted", "--processes", "1"]
    words += ["--results", str(path)]
    command.main([*words, "--seeds", "1"])
    command.main([*words, "--seeds", "2"])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted((line["method"], line["seed"]) for line in lines) == [
        (method, seed) for method in ("linear", "linear-trusted") for seed in (0, 1)
    ]
    for line in lines:
        assert line.keys() >= {"settings", "metrics", "versions", "commit", "cpu_seconds", "cpus", "python", "time"}
        assert 50 < line["metrics"]["accuracy"] <= 100


OWN_TASKS = """
import numpy as np
from benchmarks.gauntlet.task import Length, Pool, Task, deal, make_split

def draw(sources, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(80, 2)).astype(np.float32)
    pools = deal(Pool(x, (x[:, 0] > 0).astype(int), np.arange(80)), 10, 40, rng)
    return make_split(pools, pools.train.y, 2)

TASKS = [Task("mine", "table", "which side", draw, Length(steps=4, batch=8))]
"""


def test_tasks_of_a_users_file_run_in_place_of_the_gauntlets(tmp_path: Path) -> None:
    own = tmp_path / "my_tasks.py"
    own.write_text(OWN_TASKS)
    words = [sys.executable, "-m", "benchmarks.gauntlet", "--seeds", "1", "--processes", "1"]
    words += ["--method", "linear", "--method", "kl-join"]
    environment = os.environ | {"ADIW_TASKS": str(own)}
    made = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    assert "not run outside of development without --confirm: kl-join" in made.stdout
    lines = [json.loads(line) for line in (tmp_path / "my_tasks-results.jsonl").read_text().splitlines()]
    assert [(line["task"], line["method"], line["seed"]) for line in lines] == [("mine", "linear", 0)]


def test_a_file_without_tasks_is_refused(tmp_path: Path) -> None:
    own = tmp_path / "my_tasks.py"
    own.write_text("TASKS = ['cancer']")
    with pytest.raises(SystemExit, match="must have a list TASKS"):
        own_tasks(own)


def test_tables_of_a_users_tasks_are_not_written_into_the_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "OWN", Path("my_tasks.py"))
    with pytest.raises(SystemExit, match="unset ADIW_TASKS"):
        command.main(["--draw"])


def test_the_budget_starts_no_run_after_its_end(tmp_path: Path) -> None:
    unit: running.Unit = [("cancer", "linear", 0)]
    results = tmp_path / "results.jsonl"
    assert list(running.run_all(running.run_unit, [unit], Sources(), 1, budget=0.0, results=results)) == []


def test_a_task_without_data_is_skipped_once_and_a_failed_run_stops_no_other(tmp_path: Path) -> None:
    keys = [("zones", "linear", 0), ("adult-clean", "linear", 0), ("adult-clean", "boosting", 0)]
    (tmp_path / "confirmation").mkdir()
    (tmp_path / "confirmation" / "zones.csv.gz").write_bytes(b"damaged")
    results = tmp_path / "results.jsonl"
    units, sources = running.units(keys), Sources(tmp_path, tmp_path)
    failed, skipped = running.run_all(running.run_unit, units, sources, 1, 60.0, results)
    assert isinstance(failed, running.Failed)
    assert failed.name == "zones linear 0"
    assert isinstance(skipped, running.Skipped)
    assert skipped.name == "adult-clean"
    assert "--tables" in skipped.reason
    assert not results.exists()


def test_a_candidate_sees_the_confirmation_half_only_once_confirmed(tmp_path: Path) -> None:
    path = tmp_path / "confirmed.json"
    tasks, methods = ["digits-clean", "zones"], ["kl", "kl-join", "mmd-auto-join"]

    def missing() -> set[tuple[str, str]]:
        keys = running.plan(tasks, methods, [0], {}, halves.confirmed(path))
        return {(task, method) for task in tasks for method in methods} - {key[:2] for key in keys}

    assert missing() == {("zones", "kl-join"), ("zones", "mmd-auto-join")}
    halves.confirm("kl-join", path)
    halves.confirm("kl-join", path)  # resuming the same confirmation
    assert missing() == {("zones", "mmd-auto-join")}
    with pytest.raises(RefusedError, match="was spent on 'kl-join'"):
        halves.confirm("mmd-auto-join", path)
    with pytest.raises(RefusedError, match="one of the candidates, got 'kl'"):
        halves.confirm("kl", path)


def test_a_confirmation_keeps_those_before_it(tmp_path: Path) -> None:
    path = tmp_path / "confirmed.json"
    first = halves.history()["first"]
    path.write_text(json.dumps({"first": first, "second": None}))
    assert halves.confirmed(path) is None
    halves.confirm("kl-join", path)
    assert halves.history(path)["first"] == first
    assert halves.confirmed(path) == "kl-join"


def test_tables_of_a_confirmation_half_show_its_candidate_alone() -> None:
    candidates = {name for name, method in METHODS.items() if method.group == "candidate"}
    assert set(halves.shown("confirmation")) & candidates == {halves.confirmed()} - {None}
    assert halves.shown("development") == [name for name in METHODS if not name.startswith("tuned-")]


def test_the_command_says_which_candidates_it_leaves_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--task", "zones", "--method", "kl-join", "--results", str(tmp_path / "results.jsonl")]
    command.main(words)
    if halves.confirmed() != "kl-join":
        assert "not run outside of development without --confirm: kl-join" in capsys.readouterr().out


def test_the_committed_records_have_no_unconfirmed_candidate_on_the_confirmation_half() -> None:
    for task, method, _ in records.read(TASKS):
        assert halves.allowed(task, method, halves.confirmed()), (task, method)
