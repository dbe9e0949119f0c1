"""Alarms of a run, in its result and its log, and the status of a collapsed run."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from adiw.data import DataError
from adiw.experiments.dead_run import DeadRunError
from adiw.experiments.diagnosis import raise_final_alarms
from adiw.experiments.run import Interrupted, run
from adiw.experiments.settings import resolve
from adiw.experiments.splits import load_splits
from adiw.experiments.training_run import Engine, TrainingRun

CPU = torch.device("cpu")


def table(path: Path, rows: int = 600, share: float = 0.3) -> str:
    """A table of noise, so that a network that does not train predicts one class."""
    random = np.random.default_rng(0)
    values = zip(random.normal(size=rows), random.random(rows), strict=True)
    lines = [f"{x:.3f},{'yes' if u < share else 'no'}" for x, u in values]
    path.write_text("\n".join(["x,label", *lines]) + "\n")
    return str(path)


def test_a_collapsed_run_is_dead_and_its_files_are_kept(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv")
    lines: list[str] = []
    settings = resolve({"dataset": "csv", "path": path, "trusted": 100, "lr": 1e-9, "epochs": 40, "hold_out": 0.3})
    with pytest.raises(DeadRunError, match=r"the network has collapsed: class (yes|no) is predicted for 100%"):
        run(settings, tmp_path / "run", engine=Engine(CPU, log=lines.append))
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["status"] == "dead"
    assert result["reason"].startswith("the network has collapsed")
    (alarm,) = result["alarms"]
    assert (alarm["name"], alarm["epoch"]) == ("collapsed", 40)
    assert result["reason"].endswith(f": {alarm['message']}")
    assert lines == []  # the error says it
    assert (tmp_path / "run" / "labels.npy").exists()


def test_the_test_set_says_whether_a_network_has_collapsed(tmp_path: Path) -> None:
    """A run with that alarm is dead. Of the few held-out samples, one class may have nearly all by chance."""
    settings = resolve({"dataset": "csv", "path": table(tmp_path / "t.csv"), "trusted": 100, "epochs": 40})
    training = TrainingRun(settings, load_splits(settings), Engine(CPU))
    for _ in range(40):
        training.train_epoch()
    training.predict = lambda samples: torch.zeros(len(samples), dtype=torch.long)  # type: ignore[method-assign]
    truth = training.splits.test.y
    for predicted, name in ((truth, "predicted classes"), (torch.zeros_like(truth), "collapsed")):
        assert raise_final_alarms(training, predicted)[0].name == name


@pytest.mark.parametrize("method", ["adiw", "adiw-kl", "uniform"])
def test_an_ordinary_run_raises_none(tmp_path: Path, method: str) -> None:
    lines: list[str] = []
    settings = resolve({"method": method, "epochs": 15, "hold_out": 0.3})
    result = run(settings, tmp_path / "run", engine=Engine(CPU, log=lines.append))
    assert (result["status"], result["alarms"], lines) == ("done", [], [])
    held_out = np.load(tmp_path / "run" / "held_out.npy")
    assert held_out.shape == (15, result["held_out"])
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert held_out.mean(1) * 100 == pytest.approx([row["held_out_accuracy"] for row in rows])


def diverging(tmp_path: Path, **engine: Any) -> tuple[dict[str, Any], list[str]]:
    lines: list[str] = []
    given = {"method": "adiw-ls", "step_size": 100.0, "epochs": 4, "lr": 0.001, "batch": 64}
    with contextlib.suppress(DeadRunError):
        run(resolve(given), tmp_path / "run", engine=Engine(CPU, log=lines.append), **engine)
    return json.loads((tmp_path / "run" / "result.json").read_text()), lines


def test_diverging_weights_are_reported_in_the_epoch_that_shows_them(tmp_path: Path) -> None:
    result, lines = diverging(tmp_path)
    names = [alarm["name"] for alarm in result["alarms"]]
    assert names[0] in ("diverging weights", "effective sample size")
    assert result["alarms"][0]["epoch"] == 2
    assert len(names) == len(set(names)) == len(lines)


def test_alarms_of_earlier_epochs_survive_a_resume(tmp_path: Path) -> None:
    rows = tmp_path / "run" / "metrics.jsonl"
    with pytest.raises(Interrupted):
        diverging(tmp_path, stop=lambda: rows.read_text().count("\n") == 2)
    result, lines = diverging(tmp_path, resume=True)
    assert result["alarms"][0]["epoch"] == 2
    assert not any(line.startswith("epoch 2") for line in lines)


def grouped(path: Path, rows: int = 900) -> str:
    """Two classes that x tells apart; of the people of "south", most labels are wrong."""
    random = np.random.default_rng(0)
    lines = ["x,place,label"]
    for _ in range(rows):
        place, truth = random.choice(["north", "south"]), random.random() < 0.5
        label = truth if place == "north" or random.random() < 0.3 else not truth
        lines.append(f"{random.normal(4 * truth, 1):.3f},{place},{'yes' if label else 'no'}")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_groups_and_classes_are_reported_separately(tmp_path: Path) -> None:
    path = grouped(tmp_path / "t.csv")
    given = {"dataset": "csv", "path": path, "trusted": 100, "epochs": 4, "group": "place", "hold_out": 0.3}
    result = run(resolve(given), tmp_path / "run", engine=Engine(CPU))
    tables, splits = result["groups"], load_splits(resolve(given))
    assert [row["name"] for row in tables["classes"]] == ["no", "yes"]
    assert [row["name"] for row in tables["groups"]] == ["north", "south"]
    assert (
        sum(row["n"] for row in tables["groups"]) == sum(row["n"] for row in tables["classes"]) == len(splits.train)
    )
    weights = np.load(tmp_path / "run" / "weights.npy").astype(np.float64)
    assert splits.groups is not None
    north = weights[(splits.groups.train == 0).numpy()]
    assert tables["groups"][0]["mean_weight"] == pytest.approx(north.mean())
    assert tables["groups"][0]["ess"] == pytest.approx(north.sum() ** 2 / (north**2).sum())
    accuracy = sum(row["accuracy"] * int((splits.groups.test == k).sum()) for k, row in enumerate(tables["groups"]))
    assert accuracy / len(splits.test) == pytest.approx(result["accuracy"])
    assert tables["groups"][0]["accuracy"] > tables["groups"][1]["accuracy"] + 20
    selected = load_splits(resolve({**given, "selection": 50}))
    assert selected.groups is not None
    assert (len(selected.groups.train), len(selected.groups.test)) == (len(selected.train), 50)


def test_weights_that_follow_a_group_are_reported(tmp_path: Path) -> None:
    path = grouped(tmp_path / "t.csv")
    given = {"dataset": "csv", "path": path, "trusted": 100, "epochs": 20, "group": "place"}
    settings = resolve(given)
    training = TrainingRun(settings, load_splits(settings), Engine(CPU))
    for _ in range(20):
        training.train_epoch()
    assert training.splits.groups is not None
    south = training.splits.groups.train == 1
    training.reweight.weights[: len(south)] = torch.where(south, 0.05, 1.5)
    predicted = training.predict(training.splits.test)
    assert "weights follow a group" in [alarm.name for alarm in raise_final_alarms(training, predicted)]


def test_a_column_that_does_not_exist_is_an_error_that_names_those_that_do(tmp_path: Path) -> None:
    path = grouped(tmp_path / "t.csv")
    with pytest.raises(DataError, match="no column 'town' for group; the columns are x, place"):
        load_splits(resolve({"dataset": "csv", "path": path, "trusted": 100, "group": "town"}))
    with pytest.raises(DataError, match="digits does not take group"):
        load_splits(resolve({"group": "place"}))
