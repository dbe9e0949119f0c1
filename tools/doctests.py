"""Extension of griffe: the examples of docstrings (doctests) become blocks of code in the reference."""

from __future__ import annotations

import re
from typing import Any

import griffe

_DOCTEST = re.compile(r"^([ \t]*)(>>> .*?)(?=\n[ \t]*\n|\Z)", re.MULTILINE | re.DOTALL)


class Doctests(griffe.Extension):
    """Fences around every doctest, which Markdown would take for a quotation."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called by griffe for everything that it has read."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """A docstring with its doctests in fences. A doctest ends at an empty line, as for doctest itself."""
    return _DOCTEST.sub(lambda found: f"{found[1]}```pycon\n{found[0]}\n{found[1]}```", text)
