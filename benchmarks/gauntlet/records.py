"""Records: one line of JSON for each (task, method, seed), appended as soon as it is measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import adiw
from benchmarks.gauntlet.task import Task

RESULTS = Path(__file__).with_name("results.jsonl")
Key = tuple[str, str, int]  # task, method, seed
Record = dict[str, Any]


def append(record: Record, path: Path = RESULTS) -> None:
    """Add one line. A line that was cut off by a crash before is ended first, so that it spoils no other."""
    with path.open("a+b") as file:
        if file.tell():
            file.seek(-1, 2)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write((json.dumps(record) + "\n").encode())


def keep(path: Path, wanted: Callable[[Record], bool]) -> list[Record]:
    """The records of a file that are wanted, such as those of today's settings; others and cut lines are removed."""
    lines, kept = path.read_text().splitlines() if path.exists() else [], []
    for line in lines:
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        if wanted(record):
            kept.append(record)
    if len(kept) < len(lines):
        print(f"{len(lines) - len(kept)} records of other settings are removed from {path.name}", flush=True)
        aside = path.with_suffix(".part")
        aside.write_text("".join(json.dumps(record) + "\n" for record in kept))
        aside.replace(path)
    return kept


def settings_of(kind: type[adiw.divergences.Divergence]) -> str:
    """The recorded settings of a divergence: its defaults, in ``adiw.ADIW`` by its defaults."""
    return f"{kind()!r}, cautious"


def read(tasks: dict[str, Task], path: Path = RESULTS) -> dict[Key, Record]:
    """The last record of each key whose task and divergence still have the recorded settings; cut lines are skipped.

    The name of any other method stands for its settings: a changed configuration gets a new name.
    """
    found: dict[Key, Record] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        task = tasks.get(record["task"])
        if task is None or record["settings"]["task"] != task.settings():
            continue
        kind = adiw.DIVERGENCES.get(record["method"])
        if kind is None or record["settings"]["method"] == settings_of(kind):
            found[record["task"], record["method"], record["seed"]] = record
    return found
