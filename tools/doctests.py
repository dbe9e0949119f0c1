"""griffe extension: the examples of docstrings (doctests) become blocks of code in the reference."""

from __future__ import annotations

import re
from typing import Any

import griffe

_DOCTEST = re.compile(r"^([ \t]*)(>>> .*?)(?=\n[ \t]*\n|\Z)", re.MULTILINE | re.DOTALL)


class Doctests(griffe.Extension):
    """Put every doctest into a fence; Markdown would read it as a quotation."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called by griffe for every object."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """A docstring with its doctests in fences; as in doctest, an empty line ends an example."""
    return _DOCTEST.sub(lambda found: f"{found[1]}```pycon\n{found[0]}\n{found[1]}```", text)
