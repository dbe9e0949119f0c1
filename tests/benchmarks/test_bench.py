"""The command that runs all benchmarks: its parts on each device, and that one failure does not stop the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bench
import peers
import tables
import whole_run
from record import Record


def budgets(commands: dict[str, list[str]]) -> list[float]:
    return [float(c[c.index("--budget") + 1]) for c in commands.values() if "--budget" in c]


@pytest.mark.parametrize(("minutes", "quick"), [(6, False), (2, True)])
def test_the_gpus_part_fits_into_its_minutes(minutes: float, quick: bool) -> None:
    chosen = bench.commands(minutes, quick, gpu=True, cpu=False, only=None)
    assert 45 < sum(budgets(chosen)) < 60 * minutes
    assert all("cuda" in command for command in chosen.values())
    assert all(("--quick" in command) == quick for command in chosen.values())
    assert {"fashion-mnist", "cifar10", "imagenet", "estimation"} <= chosen.keys()
    assert ("imagenet-folder" in chosen) != quick


def test_a_machine_without_a_gpu_runs_the_cpus_part() -> None:
    chosen = bench.commands(6, False, gpu=False, cpu=True, only=None)
    assert chosen.keys() == bench.ON_CPU.keys()
    assert not any("cuda" in command for command in chosen.values())
    assert {"peers.py", "million.py", "oracle_error.py", "scale.py"} <= {command[0] for command in chosen.values()}


def test_every_script_exists_and_an_unknown_one_is_refused() -> None:
    for part in (*bench.ON_GPU.values(), *bench.ON_CPU.values()):
        assert (bench.HERE / part.command[0]).is_file()
    assert bench.commands(6, False, True, True, ["scale"]) == {"scale": ["scale.py"]}
    with pytest.raises(SystemExit, match="expected some of fashion-mnist"):
        bench.commands(6, False, True, True, ["speed"])


def test_how_a_part_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "HERE", tmp_path)
    monkeypatch.setattr(bench, "GRACE", 0.5)
    (tmp_path / "good.py").write_text("")
    (tmp_path / "bad.py").write_text("raise SystemExit(3)")
    (tmp_path / "slow.py").write_text("import time; time.sleep(60)")
    assert bench.run("good", ["good.py"]).startswith("good: done")
    assert bench.run("bad", ["bad.py"]).startswith("bad: failed with code 3")
    assert bench.run("slow", ["slow.py", "--budget", "0"]).startswith("slow: stopped")


def test_a_record_is_complete_after_each_row_and_absent_before(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.json"
    record = Record(path, title="x")
    assert not path.exists()
    for count in (1, 2):
        record.add({"row": count})
        assert len(json.loads(path.read_text())["rows"]) == count
    assert [file.name for file in path.parent.iterdir()] == ["a.json"]


def test_a_peer_that_fails_is_recorded_with_its_error() -> None:
    def broken(train: np.ndarray, test: np.ndarray, width: float) -> np.ndarray:
        raise ImportError("no such package")

    rows = peers.compare(
        {"bad": broken, "ones": lambda train, test, width: np.ones(len(train))}, peers.PROBLEMS[0], 2
    )
    assert rows[0] == {"problem": "1d, N(1, 0.5²)", "name": "bad", "error": "ImportError: no such package"}
    assert rows[1]["median_error"] > 0  # type: ignore[operator]


def test_every_peer_names_its_package() -> None:
    assert {name.split()[0] for name in peers.METHODS} == {"adiw", *peers.PACKAGES}


def test_a_whole_run_is_timed(tmp_path: Path) -> None:
    whole_run.main(["--device", "cpu", "--dataset", "digits", "--epochs", "2", "--out", str(tmp_path)])
    content = json.loads((tmp_path / "whole-cpu.json").read_text())
    (row,) = content["rows"]
    assert 0 < row["first_epoch_seconds"] < row["train_seconds"] < row["command_seconds"]
    parts = ("seconds_before", "train_seconds", "evaluate_seconds", "seconds_after")
    assert sum(row[name] for name in parts) < row["command_seconds"]
    assert min(row["seconds_before"], row["seconds_after"]) >= 0
    assert row["settings"]["method"] == "adiw-kl"
    assert f"| digits | 2 | {row['command_seconds']:.1f} |" in tables.whole(content)


def test_without_the_data_nothing_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("ADIW_DATA", str(tmp_path))
    whole_run.main(["--device", "cpu", "--out", str(tmp_path / "results")])
    assert "not measured" in capsys.readouterr().out
    assert not (tmp_path / "results").exists()


def test_a_run_that_takes_too_long_keeps_the_previous_result(tmp_path: Path, capsys: Any) -> None:
    whole_run.main(["--device", "cpu", "--dataset", "digits", "--budget", "0.1", "--out", str(tmp_path)])
    assert "not measured: it took more than 0 s" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_there_is_time_for_a_whole_run() -> None:
    command = bench.commands(bench.MINUTES, False, gpu=True, cpu=False, only=["whole"])["whole"]
    recorded = json.loads((bench.HERE / "results" / "whole-cuda.json").read_text())["rows"][0]
    assert float(command[command.index("--budget") + 1]) > 1.2 * recorded["command_seconds"]
