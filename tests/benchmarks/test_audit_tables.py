"""The audit on fresh tables: how a table is read, and what is drawn from it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import audit_tables
from benchmarks.audit_tables import draw, lines, read_table


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """400 rows of two classes and a rare one; a number, a text, a missing value."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    rows = [f"{k + rng.normal():.3f},{'ab'[k]},{'?' if n == 7 else n}, {'xy'[k]}" for n, k in enumerate(y)]
    file = tmp_path / "small.dat"
    file.write_text("\n".join([*rows, "0,a,1,z"]) + "\n")
    return file


def test_a_table_is_encoded_and_rare_classes_are_left_out(table: Path) -> None:
    pool = read_table(table)
    assert pool.x.shape == (400, 4)
    assert np.isfinite(pool.x).all()
    assert set(pool.y) == {0, 1}


def test_labels_are_wrong_as_often_as_said(table: Path) -> None:
    split, length = draw(read_table(table), "small", "symmetric-40", 0)
    assert (len(split.y_train), len(split.y_trusted), length.steps) == (355, 40, 370)
    assert split.wrong.double().mean() == pytest.approx(0.4, abs=0.1)
    assert not draw(read_table(table), "small", "none", 0)[0].wrong.any()


def test_what_is_recorded_is_not_run_again(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = {"cutoff": 0.3, "cutoff_precision": 0.9, "expected_precision": 0.8, "least_precision": 0.7}
    monkeypatch.setattr(audit_tables, "audit", lambda split, length: (None, dict(figures)))
    results = tmp_path / "found.jsonl"
    arguments = [str(table.parent), "--results", str(results)]
    audit_tables.main(arguments)
    records = [json.loads(line) for line in results.read_text().splitlines()]
    assert [record["kind"] for record in records] == list(audit_tables.KINDS)
    assert records[1]["metrics"]["found"] == pytest.approx(0.27 / records[1]["wrong"], rel=1e-3)
    capsys.readouterr()
    audit_tables.main(arguments)
    assert capsys.readouterr().out.splitlines() == lines(records)
    assert "-10.0, -10.0 | -20.0, -20.0" in lines(records)[3]
