"""Code in which "# new" marks added lines and "# was: ..." changed lines."""

from __future__ import annotations

import re

WAS = re.compile(r"( *).*  # was: (.*)")


def count(code: str) -> int:
    """The number of added and changed lines."""
    return sum("  # new" in line or WAS.match(line) is not None for line in code.splitlines())


def before(code: str) -> str:
    """The code before these changes."""
    lines = (WAS.sub(r"\1\2", line) for line in code.splitlines() if "  # new" not in line)
    return "\n".join(lines) + "\n"
