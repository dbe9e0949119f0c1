"""Code that marks what weights change in it: lines that end in "# new" were not there, "# was: ..." says what was."""

from __future__ import annotations

import re

WAS = re.compile(r"( *).*  # was: (.*)")


def count(code: str) -> int:
    """How many lines change."""
    return sum("  # new" in line or WAS.match(line) is not None for line in code.splitlines())


def before(code: str) -> str:
    """The code as it was before any of them changed."""
    lines = (WAS.sub(r"\1\2", line) for line in code.splitlines() if "  # new" not in line)
    return "\n".join(lines) + "\n"
