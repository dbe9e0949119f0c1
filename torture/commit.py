"""The commit of a record. Files that the checks write themselves do not count as changes."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
WRITTEN = (":!results/torture", ":!docs/reliability.md")


@functools.cache
def commit() -> str:
    """The commit of the tree at the first call, with the suffix "-dirty" if the tree has changes."""
    if given := os.environ.get("ADIW_COMMIT"):
        return given
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", *WRITTEN)
    return _git("describe", "--always", "--abbrev=12") + ("-dirty" if changed else "")


def _git(*command: str) -> str:
    return subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True).stdout.strip()
