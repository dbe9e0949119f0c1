"""Bad arguments for every public name: valid arguments of a small call, of which one or two are replaced."""

from __future__ import annotations

from pathlib import Path

from torture.entries import arrays, files, frameworks, methods, settings, tensors
from torture.entries.entry import Entry


def entries(work: Path) -> list[Entry]:
    """Everything that is tried."""
    parts = methods.methods(), tensors.tensors(), settings.settings(), arrays.arrays(), files.readers(work)
    return [entry for part in (*parts, frameworks.frameworks(work)) for entry in part]
