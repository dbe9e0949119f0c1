"""The benchmark of a busy machine: rows with and without neighbours, relative to the run without them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import busy_machine
import tables


def test_rows_with_and_without_neighbours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    calls: list[Any] = []
    real = subprocess.run

    def run(command: list[str], **given: Any) -> Any:
        if "adiw" in command:
            calls.append(given["env"].get("OMP_NUM_THREADS"))
            return None
        return real(command, **given)  # git, which names the commit

    monkeypatch.setattr(subprocess, "run", run)
    busy_machine.main(["--rounds", "2", "--epochs", "3", "--neighbours", "1", "--out", str(tmp_path)])
    assert calls == [None, None, *[str(os.cpu_count())] * 2] * 2
    content = json.loads((tmp_path / "busy-cpu.json").read_text())
    assert [(row["threads"], row["neighbours"]) for row in content["rows"]] == [
        (threads, neighbours) for threads in busy_machine.THREADS for neighbours in (0, 1)
    ]
    assert all(len(row["rounds"]) == 2 for row in content["rows"])
    assert content["rows"][0]["ratio"] == 1
    assert "| chosen | 1 |" in tables.busy(content)
