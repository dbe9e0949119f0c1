"""A sweep in several processes that are killed at random moments, the parent too: no run is lost, none runs twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.child_processes import needs_proc, wait_until_ended, workers
from tests.cli.conftest import Command
from tests.experiments.small_sweeps import TEXT, files, write_recipe

PART = ("--shift", "much", "--method", "Uniform", "--method", "KL")
KILLED = ("worker", "parent")


def start() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "adiw", "sweep", "mine.toml", *PART, "--processes", "2"]
    with Path("log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"})


def wait_for_workers(process: subprocess.Popen[bytes], seconds: float = 120) -> list[int]:
    deadline = time.monotonic() + seconds
    while len(found := workers(process.pid)) < 2 and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


@needs_proc
def test_workers_and_parents_killed_at_random_moments(adiw: Command, tmp_path: Path) -> None:
    write_recipe(tmp_path, text=TEXT.replace("epochs = 2", "epochs = 25"))
    assert adiw("sweep", "mine.toml", *PART, "--processes", 1, "--out", "whole").code == 0
    draw, sweep = random.Random(0), start()
    for victim in KILLED:
        found = wait_for_workers(sweep)
        time.sleep(draw.uniform(0, 2))  # importing, loading the data, training, or writing files
        if victim == "worker":
            if found:
                os.kill(draw.choice(found), signal.SIGKILL)
            continue
        sweep.kill()
        sweep.wait()
        wait_until_ended(found)
        sweep = start()
    assert sweep.wait(timeout=300) == 0, Path("log").read_text()[-2000:]
    records = [json.loads(line) for line in Path("runs/mine/results.jsonl").read_text().splitlines()]
    assert sorted((r["row"], r["trial"], r["status"]) for r in records) == [
        (row, trial, "done") for row in ("KL", "Uniform") for trial in (0, 1)
    ]
    assert files(tmp_path / "runs" / "mine") == files(tmp_path / "whole")
