"""The commit that a record is of: what the checks write themselves does not make the tree another one."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
WRITTEN = (":!results/torture", ":!docs/reliability.md")


@functools.cache
def commit() -> str:
    """The commit of the tree when this was first asked, with "-dirty" behind it where the tree had changes."""
    if given := os.environ.get("ADIW_COMMIT"):
        return given
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", *WRITTEN)
    return _git("describe", "--always", "--abbrev=12") + ("-dirty" if changed else "")


def _git(*command: str) -> str:
    return subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True).stdout.strip()
