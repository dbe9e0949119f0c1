"""The processes that a process has started, read from /proc."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

needs_proc = pytest.mark.skipif(
    not Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").exists(), reason="needs /proc to see the processes"
)


def children(process: int) -> list[int]:
    """Processes started by the threads of this one."""
    try:
        found = [file.read_text() for file in Path(f"/proc/{process}/task").glob("*/children")]
    except OSError:  # it has ended
        return []
    return [int(child) for text in found for child in text.split()]


def workers(process: int) -> list[int]:
    """Its children that multiprocessing has started, without the resource tracker."""
    return [child for child in children(process) if "spawn_main" in _command(child)]


def wait_until_ended(processes: list[int], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while any(map(_alive, processes)):
        assert time.monotonic() < deadline, f"still running: {[p for p in processes if _alive(p)]}"
        time.sleep(0.02)


def _command(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text()
    except OSError:
        return ""


def _alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
