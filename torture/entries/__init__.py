"""A small valid call of every public name; the check replaces one or two of its arguments."""

from __future__ import annotations

from pathlib import Path

from torture.entries import arrays, files, frameworks, methods, settings, tensors
from torture.entries.entry import Entry


def entries(work: Path) -> list[Entry]:
    """All calls that are tried."""
    parts = methods.methods(), tensors.tensors(), settings.settings(), arrays.arrays(), files.readers(work)
    return [entry for part in (*parts, frameworks.frameworks(work)) for entry in part]
