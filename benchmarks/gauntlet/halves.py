"""The two halves of the tasks, and the rule that a candidate sees the confirmation half once."""

from __future__ import annotations

import json
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from benchmarks.gauntlet.methods import METHODS

Half = Literal["development", "confirmation"]
HALVES = Path(__file__).with_name("halves.toml")
CONFIRMED = Path(__file__).with_name("confirmed.json")


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
        path.write_text(json.dumps({"candidate": name, "time": datetime.now(UTC).isoformat("T", "seconds")}) + "\n")


def confirmed(path: Path = CONFIRMED) -> str | None:
    """The candidate that may run on the confirmation half, or None."""
    return json.loads(path.read_text())["candidate"] if path.exists() else None


def allowed(task: str, method: str, candidate: str | None) -> bool:
    """Whether a method may run on a task: of the candidates, only the confirmed one may on the confirmation half."""
    if METHODS[method].group != "candidate" or task not in read_halves()["confirmation"]:
        return True
    return method == candidate
