"""The halves of the tasks, and the rule that a candidate sees the confirmation half once.

The same rule holds for the tasks for a GPU, on which nothing is chosen. It is for candidates for the default only:
alternatives, divergences with their defaults, and the divergences tuned for each task (``tuned.py``), which are a
reference and are never the default, run on all tasks.
"""

from __future__ import annotations

import json
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from benchmarks.gauntlet.methods import METHODS

Half = Literal["development", "confirmation", "gpu"]
HALVES = Path(__file__).with_name("halves.toml")
CONFIRMED = Path(__file__).with_name("confirmed.json")
PRESENT = "second"  # the confirmation whose tasks are the confirmation half


class RefusedError(Exception):
    """A run that would let a choice depend on the confirmation half."""


def read_halves(path: Path = HALVES) -> dict[Half, list[str]]:
    """The names of the tasks in each half."""
    return tomllib.loads(path.read_text())  # type: ignore[return-value]


def confirm(name: str, path: Path = CONFIRMED) -> None:
    """Record the one candidate that may run on the confirmation half; RefusedError if another one is recorded."""
    if name not in METHODS or METHODS[name].group != "candidate":
        known = ", ".join(n for n, method in METHODS.items() if method.group == "candidate")
        raise RefusedError(f"--confirm takes one of the candidates, got {name!r}: expected one of {known}")
    recorded = confirmed(path)
    if recorded not in (None, name):
        raise RefusedError(
            f"the confirmation half was spent on {recorded!r} (see {path.name}): a second choice, {name!r}, would be "
            "tuned on it. Draw new tasks for a new confirmation"
        )
    if recorded is None:
        entry = {"candidate": name, "time": datetime.now(UTC).isoformat("T", "seconds")}
        path.write_text(json.dumps(history(path) | {PRESENT: entry}, indent=2) + "\n")


def history(path: Path = CONFIRMED) -> dict[str, dict[str, str] | None]:
    """Each confirmation with its candidate and time, None while it is free."""
    return json.loads(path.read_text()) if path.exists() else {}


def confirmed(path: Path = CONFIRMED) -> str | None:
    """The candidate that may run on the confirmation half, or None."""
    entry = history(path).get(PRESENT)
    return entry["candidate"] if entry else None


def allowed(task: str, method: str, candidate: str | None) -> bool:
    """Whether a method may run on a task: of the candidates, only the confirmed one may outside of development."""
    if METHODS[method].group != "candidate" or task in read_halves()["development"]:
        return True
    return method == candidate


def shown(half: Half) -> list[str]:
    """The methods in the tables of a half: outside of development, of the candidates only the confirmed one.

    References have a table of their own.
    """
    methods = [name for name, method in METHODS.items() if method.group != "reference"]
    if half == "development":
        return methods
    candidate = confirmed()
    return [name for name in methods if METHODS[name].group != "candidate" or name == candidate]
